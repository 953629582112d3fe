-- name: reserve
-- The loser of a race waits here for the winner's commit, then finds its row.
INSERT INTO holdfast_idempotency (scope, key, fingerprint, status, body, created_at)
VALUES (:scope, :key, :fingerprint, 0, '', CAST(:now AS BIGINT))
ON CONFLICT DO NOTHING
RETURNING key

-- name: read
SELECT fingerprint, status, body FROM holdfast_idempotency WHERE scope = :scope AND key = :key

-- name: answer
UPDATE holdfast_idempotency SET status = :status, body = :body WHERE scope = :scope AND key = :key

-- name: prune
DELETE FROM holdfast_idempotency WHERE (scope, key) IN (
  SELECT scope, key FROM holdfast_idempotency WHERE created_at >= :floor AND created_at < :before
   ORDER BY created_at LIMIT :limit)
RETURNING key, created_at
