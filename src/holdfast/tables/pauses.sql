-- name: put
INSERT INTO holdfast_pauses (sort, name, is_paused, since, actor, reason)
VALUES (:sort, :name, CAST(:is_paused AS SMALLINT), CAST(:now AS BIGINT), :actor, :reason)
ON CONFLICT (sort, name) DO UPDATE SET
  is_paused = excluded.is_paused, since = excluded.since, actor = excluded.actor, reason = excluded.reason

-- name: read_every
-- brief
SELECT sort, name, is_paused, since, actor, reason FROM holdfast_pauses ORDER BY sort, name

-- name: of_job
-- brief
-- The pauses that a job of this kind and queue waits for.
SELECT sort, name, since, actor, reason FROM holdfast_pauses
 WHERE is_paused = 1 AND ((sort = 'kind' AND name = :kind) OR (sort = 'queue' AND name = :queue)) ORDER BY sort

-- name: is_paused
-- brief
SELECT 1 AS yes FROM holdfast_pauses WHERE sort = :sort AND name = :name AND is_paused = 1

-- name: release
-- Jobs of a kind that is not paused any more, those that were set aside first. They come back as what has just come due
-- does, so that every claim sees them, with the provider of their stage. `updated_at` stays: it says how far this has come.
WITH picked AS MATERIALIZED (
  SELECT id AS k FROM holdfast_jobs
   WHERE hold = 'pause' AND kind = :kind AND updated_at >= :floor
     AND NOT EXISTS (SELECT 1 FROM holdfast_pauses AS s WHERE s.sort = 'kind' AND s.name = :kind AND s.is_paused = 1)
   ORDER BY updated_at LIMIT :limit /*skip_locked*/)
UPDATE holdfast_jobs SET parked = 0, hold = NULL, is_due = 0,
       run_at = CASE WHEN run_at > :now THEN run_at ELSE CAST(:now AS BIGINT) END,
       provider = (SELECT e.value->>0 FROM json_each(:stages) AS e WHERE e.key = stage)
 WHERE id IN (SELECT k FROM picked)
RETURNING queue, updated_at

-- name: held
-- brief
SELECT queue, COUNT(*) AS jobs, MIN(updated_at) AS first, MIN(run_at) AS oldest
  FROM (SELECT queue, run_at, updated_at FROM holdfast_jobs
         WHERE hold = 'pause' AND kind = :kind AND updated_at >= :floor ORDER BY updated_at LIMIT :limit) AS head
 GROUP BY queue
