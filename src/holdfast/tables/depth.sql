-- name: ready
-- brief
-- What a claim of the lane meets first, and where it stands. Every count here goes so far and no further, from a floor
-- on: a table of any size, with any number of dead versions, costs the same.
SELECT kind, stage, version, COUNT(*) AS jobs, MIN(created_at) AS first, MIN(run_at) AS oldest
  FROM (SELECT kind, stage, version, created_at, run_at FROM holdfast_jobs
         WHERE state = 'queued' AND parked = 0 AND is_due = 1 AND queue = :queue AND priority = :priority
           AND created_at >= :floor
         ORDER BY created_at LIMIT :limit) AS head
 GROUP BY kind, stage, version

-- name: later
-- brief
-- The same of what is not due yet, or has come due and was not let into its lane.
SELECT kind, stage, version, CASE WHEN run_at <= :now THEN 1 ELSE 0 END AS is_due, COUNT(*) AS jobs,
       MIN(run_at) AS first, MIN(run_at) AS oldest
  FROM (SELECT kind, stage, version, run_at FROM holdfast_jobs
         WHERE state = 'queued' AND is_due = 0 AND parked = 0 AND queue = :queue AND run_at >= :floor
         ORDER BY run_at LIMIT :limit) AS head
 GROUP BY kind, stage, version, CASE WHEN run_at <= :now THEN 1 ELSE 0 END

-- name: in_line
-- brief
-- The same of what is due and waits for the turn of its key.
SELECT kind, stage, version, COUNT(*) AS jobs, MIN(run_at) AS first, MIN(run_at) AS oldest
  FROM (SELECT kind, stage, version, run_at FROM holdfast_jobs
         WHERE hold = 'turn' AND parked = 1 AND queue = :queue AND priority = :priority
           AND run_at >= :floor AND run_at <= :now
         ORDER BY run_at LIMIT :limit) AS head
 GROUP BY kind, stage, version

-- name: processing
-- brief
SELECT queue, COUNT(*) AS jobs, MIN(lease_until) AS first, MIN(run_at) AS oldest
  FROM (SELECT queue, run_at, lease_until FROM holdfast_jobs WHERE state = 'processing' AND lease_until >= :floor
         ORDER BY lease_until LIMIT :limit) AS head
 GROUP BY queue

-- name: waiting
-- brief
SELECT queue, COUNT(*) AS jobs, MIN(run_at) AS first, MIN(run_at) AS oldest
  FROM (SELECT queue, run_at FROM holdfast_jobs WHERE state = 'waiting' AND run_at >= :floor
         ORDER BY run_at LIMIT :limit) AS head
 GROUP BY queue

-- name: parked
-- brief
SELECT queue, COUNT(*) AS jobs, MIN(updated_at) AS first, MIN(run_at) AS oldest
  FROM (SELECT queue, run_at, updated_at FROM holdfast_jobs
         WHERE state = 'queued' AND parked = 1 AND provider = :provider AND updated_at >= :floor
         ORDER BY updated_at LIMIT :limit) AS head
 GROUP BY queue

-- name: doubtful
-- Effects whose fate is open.
SELECT provider, status, COUNT(*) AS effects, MIN(updated_at) AS first
  FROM (SELECT provider, status, updated_at FROM holdfast_effects
         WHERE (status IN ('sending', 'unknown', 'review') OR (status = 'sent' AND provider_id IS NULL))
           AND updated_at >= :floor
         ORDER BY updated_at LIMIT :limit) AS head
 GROUP BY provider, status

-- name: letters
-- One state a statement, in the order in which letters came to it.
SELECT category, kind, stage, error_class, failure_reason, COUNT(*) AS letters, MIN(updated_at) AS first
  FROM (SELECT category, kind, stage, error_class, failure_reason, updated_at FROM holdfast_dead_letters
         WHERE state = :state AND updated_at >= :floor
         ORDER BY updated_at LIMIT :limit) AS head
 GROUP BY category, kind, stage, error_class, failure_reason

-- name: finished_since
-- By the newest events: there is no index of the ended, and their events are never written again. An event of a success
-- has the number of its kind's others in the same turn as its data.
SELECT ended.kind, ended.state, CAST(SUM(ended.jobs) AS BIGINT) AS jobs
  FROM (SELECT j.kind, CASE e.others WHEN 0 THEN j.state ELSE 'succeeded' END AS state,
               CASE e.others WHEN 0 THEN 1 ELSE e.others END AS jobs
          FROM (SELECT DISTINCT n.job_id, 0 AS others
                  FROM (SELECT job_id, type, at FROM holdfast_job_events ORDER BY seq DESC LIMIT :limit) AS n
                 WHERE n.at >= :since AND n.type IN ('succeeded', 'buried', 'expired', 'cancelled')
                 UNION ALL
                SELECT n.job_id, CAST(n.data AS BIGINT)
                  FROM (SELECT job_id, type, at, data FROM holdfast_job_events ORDER BY seq DESC LIMIT :limit) AS n
                 WHERE n.at >= :since AND n.type = 'succeeded' AND n.data NOT LIKE '{%') AS e
          JOIN holdfast_jobs AS j ON j.id = e.job_id
         WHERE j.state IN ('succeeded', 'dead', 'cancelled') AND j.finished_at >= :since) AS ended
 GROUP BY ended.kind, ended.state

-- name: standing
-- Where the jobs that have not ended stand. Reads all of them: for a person before a deploy, not for a loop.
SELECT kind, stage, version, COUNT(*) AS jobs, MIN(created_at) AS oldest FROM holdfast_jobs
 WHERE state IN ('queued', 'processing', 'waiting') AND queue IN (SELECT e.key FROM json_each(:queues) AS e)
 GROUP BY kind, stage, version ORDER BY kind, stage, version

-- name: dying
-- What jobs died of lately, as far as nobody has looked: the newest letters, by what they have in common. Deaths by
-- deadline are told by what held the jobs up.
SELECT d.kind, d.stage, d.error_class, d.category, COUNT(*) AS letters, MIN(d.last_failure_at) AS first_at,
       COUNT(DISTINCT j.owner) AS owners
  FROM (SELECT job_id, fingerprint, kind, stage, error_class, category, last_failure_at FROM holdfast_dead_letters
         WHERE last_failure_at >= :since AND state = 'open' AND failure_reason NOT IN ('deadline', 'no_time')
         ORDER BY last_failure_at DESC LIMIT :limit) AS d
  LEFT JOIN holdfast_jobs AS j ON j.id = d.job_id
 GROUP BY d.fingerprint, d.kind, d.stage, d.error_class, d.category ORDER BY letters DESC, d.kind, d.stage LIMIT 5
