-- name: ensure
-- A changed time takes effect at once; an unchanged one keeps its next time. A pause is a person's, and stays.
INSERT INTO holdfast_schedules (name, cron, kind, payload, timezone, jitter_ms, overlap, added, next_at, updated_at)
VALUES (:name, :cron, :kind, :payload, :timezone, CAST(:jitter_ms AS BIGINT), :overlap, CAST(:added AS SMALLINT),
        CAST(:next_at AS BIGINT), CAST(:now AS BIGINT))
ON CONFLICT (name) DO UPDATE SET
  next_at = CASE WHEN holdfast_schedules.cron = excluded.cron AND holdfast_schedules.timezone = excluded.timezone
                 THEN holdfast_schedules.next_at ELSE excluded.next_at END,
  cron = excluded.cron, kind = excluded.kind, payload = excluded.payload, timezone = excluded.timezone,
  jitter_ms = excluded.jitter_ms, overlap = excluded.overlap, added = excluded.added, updated_at = excluded.updated_at

-- name: upcoming
-- The next ones, also those whose time has not come. Of these kinds, and added by a person or named in the code that asks:
-- what no code of a deployment names any more waits for nobody, and is in nobody's way.
SELECT name, next_at FROM holdfast_schedules_now
 WHERE paused = 0 AND kind IN (SELECT e.key FROM json_each(:kinds) AS e)
   AND (added = 1 OR name IN (SELECT e.key FROM json_each(:named) AS e))
 ORDER BY next_at LIMIT :limit

-- name: lock_due
-- No row: somebody else is about to enqueue it, or has.
SELECT s.name, s.cron, s.kind, s.payload, s.next_at, s.timezone, s.jitter_ms, s.overlap, s.last_at
  FROM (SELECT n.name, n.cron, n.kind, n.payload, n.next_at, n.timezone, n.jitter_ms, n.overlap, n.last_at, n.paused
          FROM holdfast_schedules AS n WHERE n.name >= :name AND n.name <= :name ORDER BY n.name DESC LIMIT 1
          /*skip_locked*/) AS s
 WHERE s.next_at <= :now AND s.paused = 0

-- name: advance
UPDATE holdfast_schedules SET last_at = CASE WHEN :ran = 1 THEN next_at ELSE last_at END,
       next_at = CAST(:next_at AS BIGINT), updated_at = CAST(:now AS BIGINT)
 WHERE /*newest holdfast_schedules :name*/ AND next_at = :expected
RETURNING name

-- name: pause
UPDATE holdfast_schedules SET paused = CAST(:paused AS SMALLINT), updated_at = CAST(:now AS BIGINT),
       next_at = CASE WHEN CAST(:next_at AS BIGINT) IS NULL THEN next_at ELSE CAST(:next_at AS BIGINT) END
 WHERE name = :name
RETURNING name

-- name: remove
DELETE FROM holdfast_schedules WHERE name = :name
RETURNING name

-- name: read_every
SELECT name, cron, kind, payload, next_at, last_at, timezone, jitter_ms, overlap, paused, added
  FROM holdfast_schedules_now ORDER BY name

-- name: is_live
SELECT 1 AS live FROM holdfast_jobs
 WHERE kind = :kind AND job_key = :job_key AND state IN ('queued', 'processing', 'waiting')

-- name: runs
SELECT CAST(id AS TEXT) AS id, job_key, state, stage, failures, created_at, finished_at, error FROM holdfast_jobs
 WHERE kind = :kind AND job_key LIKE :keys ESCAPE '!' ORDER BY holdfast_jobs.id DESC LIMIT :limit
