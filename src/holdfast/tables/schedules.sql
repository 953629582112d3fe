-- name: ensure
-- A changed cron or payload takes effect at once; an unchanged one keeps its next time.
INSERT INTO holdfast_schedules (name, cron, kind, payload, next_at, updated_at)
VALUES (:name, :cron, :kind, :payload, CAST(:next_at AS BIGINT), CAST(:now AS BIGINT))
ON CONFLICT (name) DO UPDATE SET
  next_at = CASE WHEN holdfast_schedules.cron = excluded.cron THEN holdfast_schedules.next_at ELSE excluded.next_at END,
  cron = excluded.cron, kind = excluded.kind, payload = excluded.payload, updated_at = excluded.updated_at

-- name: due
SELECT name, cron, kind, payload, next_at FROM holdfast_schedules WHERE next_at <= :now
 ORDER BY next_at LIMIT :limit /*skip_locked*/

-- name: advance
UPDATE holdfast_schedules SET last_at = next_at, next_at = CAST(:next_at AS BIGINT), updated_at = CAST(:now AS BIGINT)
 WHERE name = :name AND next_at = :expected
RETURNING name

-- name: every
SELECT name, cron, kind, payload, next_at, last_at FROM holdfast_schedules ORDER BY name
