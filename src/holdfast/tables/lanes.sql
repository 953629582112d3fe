-- name: promote
-- brief
-- Lets into the ready index what has come due. PostgreSQL's `turn` does it by itself.
WITH come AS MATERIALIZED (
  SELECT id AS k FROM holdfast_jobs
   WHERE state = 'queued' AND is_due = 0 AND parked = 0 AND queue = :queue AND run_at >= :floor AND run_at <= :now
   ORDER BY run_at LIMIT :limit /*skip_locked*/)
UPDATE holdfast_jobs SET is_due = 1 WHERE id IN (SELECT k FROM come)
RETURNING priority, created_at, run_at

-- name: due_ids
-- For engines that are told a job's id: who to ring for. One lane a statement, as in the claim.
SELECT CAST(id AS TEXT) AS id, attempt, created_at,
       CASE WHEN kind IN (SELECT s.name FROM holdfast_pauses AS s WHERE s.sort = 'kind' AND s.is_paused = 1) THEN 'pause'
            WHEN provider IS NOT NULL AND (hold IS NULL OR hold <> 'trial') AND provider IN (
                 SELECT b.name FROM holdfast_breakers_now AS b WHERE b.gate <> 'closed') THEN 'breaker' END AS held
  FROM holdfast_jobs
 WHERE state = 'queued' AND parked = 0 AND is_due = 1 AND queue = :queue AND priority = :priority
   AND created_at >= :floor AND run_at <= :now
   AND CASE WHEN kind || ' ' || stage || ' ' || version IN (
        SELECT e.key FROM json_each(:declared) AS e) THEN TRUE ELSE FALSE END
 ORDER BY created_at LIMIT :limit

-- name: below
-- brief
-- The oldest job that a claim would take, in each lane, below the lane's floor.
SELECT e.value->>0 AS queue, CAST(e.value->>1 AS INTEGER) AS priority,
       (SELECT j.created_at FROM holdfast_jobs AS j
         WHERE j.state = 'queued' AND j.parked = 0 AND j.is_due = 1 AND j.queue = e.value->>0
           AND j.priority = CAST(e.value->>1 AS INTEGER) AND j.created_at < CAST(e.value->>2 AS BIGINT)
           AND j.run_at <= :now
           AND CASE WHEN j.kind || ' ' || j.stage || ' ' || j.version IN (
                SELECT d.key FROM json_each(:declared) AS d) THEN TRUE ELSE FALSE END
         ORDER BY j.created_at LIMIT 1) AS lowest
  FROM json_each(:lanes) AS e

-- name: below_later
-- brief
-- The same of what has come due or come back.
SELECT e.value->>0 AS queue,
       (SELECT j.run_at FROM holdfast_jobs AS j
         WHERE j.state = 'queued' AND j.is_due = 0 AND j.parked = 0 AND j.queue = e.value->>0
           AND j.run_at < CAST(e.value->>2 AS BIGINT)
           AND CASE WHEN j.kind || ' ' || j.stage || ' ' || j.version IN (
                SELECT d.key FROM json_each(:declared) AS d) THEN TRUE ELSE FALSE END
         ORDER BY j.run_at LIMIT 1) AS lowest
  FROM json_each(:lanes) AS e

-- name: park
-- What the claim does to a due row whose provider is held or whose kind is paused, for engines that do not claim by queue.
UPDATE holdfast_jobs
   SET parked = 1, hold = s.why, provider = CASE s.why WHEN 'pause' THEN NULL ELSE provider END, updated_at = :now
  FROM (SELECT CAST(e.key AS /*id*/) AS k, CAST(e.value->>0 AS BIGINT) AS at, e.value->>1 AS why
          FROM json_each(:batch) AS e) AS s
 WHERE holdfast_jobs.id = s.k AND holdfast_jobs.attempt = s.at
   AND CASE holdfast_jobs.state WHEN 'queued' THEN holdfast_jobs.parked = 0 ELSE FALSE END
RETURNING CAST(holdfast_jobs.id AS TEXT) AS id, holdfast_jobs.attempt
