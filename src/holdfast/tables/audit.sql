-- name: write
INSERT INTO holdfast_audit (at, actor, action, subject, data)
VALUES (CAST(:now AS BIGINT), :actor, :action, :subject, :data)

-- name: of_subject
SELECT at, actor, action, subject, data FROM holdfast_audit WHERE subject = :subject ORDER BY seq LIMIT :limit

-- name: recent
SELECT at, actor, action, subject, data FROM holdfast_audit ORDER BY seq DESC LIMIT :limit
