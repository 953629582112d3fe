-- name: write
INSERT INTO holdfast_audit (at, actor, action, subject, data)
VALUES (CAST(:now AS BIGINT), :actor, :action, :subject, :data)

-- name: of_subject
SELECT at, actor, action, subject, data FROM holdfast_audit WHERE subject = :subject ORDER BY seq LIMIT :limit

-- name: acts_since
SELECT n.action, COUNT(*) AS acts
  FROM (SELECT action FROM holdfast_audit WHERE actor <> 'kernel' AND at >= :since ORDER BY at DESC LIMIT :limit) AS n
 GROUP BY n.action
 ORDER BY n.action
