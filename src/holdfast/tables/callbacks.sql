-- name: put
-- The first answer of a key stands.
INSERT INTO holdfast_callbacks (key, body, received_at) VALUES (:key, :body, CAST(:now AS BIGINT))
ON CONFLICT (key) DO NOTHING
RETURNING key

-- name: take
DELETE FROM holdfast_callbacks WHERE key = :key
RETURNING body

-- name: is_kept
SELECT 1 AS kept FROM holdfast_callbacks WHERE key = :key

-- name: awaited
-- Answers that came before their job waited for them.
SELECT c.key, c.received_at FROM holdfast_callbacks AS c
 WHERE c.received_at >= :floor AND EXISTS (SELECT 1 FROM holdfast_jobs AS j WHERE j.wait_key = c.key)
 ORDER BY c.received_at LIMIT :limit

-- name: prune
DELETE FROM holdfast_callbacks WHERE key IN (
  SELECT key FROM holdfast_callbacks WHERE received_at >= :floor AND received_at < :before
   ORDER BY received_at LIMIT :limit)
RETURNING received_at

-- name: waiter
SELECT CAST(id AS TEXT) AS id FROM holdfast_jobs WHERE wait_key = :key
