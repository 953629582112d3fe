-- name: keep
-- A letter that came to us as a message: on the in-process transport there is no queue where it could lie.
INSERT INTO grading_letters (id, body, is_text, state, received_at)
VALUES (:id, :body, :is_text, 'open', CAST(:now AS BIGINT))
ON CONFLICT DO NOTHING

-- name: act
-- The id decides: of two people at once, and after a crash, one act stands.
INSERT INTO grading_letters (id, body, is_text, state, received_at, acted_at, acted_by, reason)
VALUES (:id, :body, :is_text, :state, CAST(:now AS BIGINT), CAST(:now AS BIGINT), :actor, :reason)
ON CONFLICT (id) DO UPDATE SET state = excluded.state, acted_at = excluded.acted_at, acted_by = excluded.acted_by,
  reason = excluded.reason
 WHERE grading_letters.state = 'open'
RETURNING id

-- name: open_page
SELECT id, body, is_text, state, received_at, acted_at, acted_by, reason FROM grading_letters
 WHERE state = 'open' ORDER BY received_at, id LIMIT :limit

-- name: acted
SELECT id, state, acted_at, acted_by, reason FROM grading_letters
 WHERE state <> 'open' AND id IN (SELECT e.key FROM json_each(:ids) AS e)

-- name: show
SELECT id, body, is_text, state, received_at, acted_at, acted_by, reason FROM grading_letters WHERE id = :id
