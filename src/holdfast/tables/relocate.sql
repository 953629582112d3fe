-- name: queues
-- brief
-- Queues in which jobs stand that nobody knows of, one between each two that are known ('' among them) and one behind the
-- last: each is a descent of an index between two names, so that no known queue's past is walked over.
WITH gaps AS MATERIALIZED (
  SELECT e.key AS low, LEAD(e.key) OVER (ORDER BY e.key) AS high FROM json_each(:known) AS e)
SELECT CASE WHEN high IS NULL
       THEN (SELECT j.queue FROM holdfast_jobs AS j
              WHERE j.state = 'queued' AND j.parked = 0 AND j.is_due = 1 AND j.queue > low ORDER BY j.queue LIMIT 1)
       ELSE (SELECT j.queue FROM holdfast_jobs AS j
              WHERE j.state = 'queued' AND j.parked = 0 AND j.is_due = 1 AND j.queue > low AND j.queue < high
              ORDER BY j.queue LIMIT 1) END AS due,
       CASE WHEN high IS NULL
       THEN (SELECT j.queue FROM holdfast_jobs AS j
              WHERE j.state = 'queued' AND j.is_due = 0 AND j.queue > low ORDER BY j.queue LIMIT 1)
       ELSE (SELECT j.queue FROM holdfast_jobs AS j
              WHERE j.state = 'queued' AND j.is_due = 0 AND j.queue > low AND j.queue < high
              ORDER BY j.queue LIMIT 1) END AS later,
       CASE WHEN high IS NULL
       THEN (SELECT j.queue FROM holdfast_jobs AS j WHERE j.hold = 'turn' AND j.queue > low ORDER BY j.queue LIMIT 1)
       ELSE (SELECT j.queue FROM holdfast_jobs AS j
              WHERE j.hold = 'turn' AND j.queue > low AND j.queue < high ORDER BY j.queue LIMIT 1) END AS in_line
  FROM gaps

-- name: bring_home
-- Jobs of these kinds from a queue that nobody serves to the one that their kind waits in now, a part of those that are due
-- and of those that are not. They come in as what has just come due does, so that every claim sees them.
WITH due AS MATERIALIZED (
  SELECT id AS k FROM holdfast_jobs
   WHERE state = 'queued' AND parked = 0 AND is_due = 1 AND queue = :queue
     AND kind IN (SELECT e.key FROM json_each(:homes) AS e)
   ORDER BY priority, created_at LIMIT :limit /*skip_locked*/),
later AS MATERIALIZED (
  SELECT id AS k FROM holdfast_jobs
   WHERE state = 'queued' AND is_due = 0 AND queue = :queue AND kind IN (SELECT e.key FROM json_each(:homes) AS e)
   ORDER BY run_at LIMIT :limit /*skip_locked*/),
in_line AS MATERIALIZED (
  SELECT id AS k FROM holdfast_jobs
   WHERE hold = 'turn' AND queue = :queue AND kind IN (SELECT e.key FROM json_each(:homes) AS e)
   ORDER BY priority, fair_key, run_at LIMIT :limit /*skip_locked*/)
UPDATE holdfast_jobs
   SET queue = (SELECT e.value->>0 FROM json_each(:homes) AS e WHERE e.key = kind),
       is_due = CASE WHEN hold = 'turn' THEN is_due ELSE 0 END,
       run_at = CASE WHEN run_at > :now THEN run_at ELSE CAST(:now AS BIGINT) END
 WHERE id IN (SELECT k FROM due UNION ALL SELECT k FROM later UNION ALL SELECT k FROM in_line) AND state = 'queued'
RETURNING queue

-- name: let_go
-- Jobs that wait for a turn at these stages, each with its provider, where nobody takes turns for their kind any more.
WITH picked AS MATERIALIZED (
  SELECT id AS k, run_at AS since FROM holdfast_jobs
   WHERE hold = 'turn' AND parked = 1 AND queue = :queue AND priority = :priority AND run_at >= :floor AND run_at <= :now
     AND kind || ' ' || stage IN (SELECT e.key FROM json_each(:stages) AS e)
   ORDER BY run_at LIMIT :limit /*skip_locked*/)
UPDATE holdfast_jobs
   SET parked = 0, hold = NULL, is_due = 0, run_at = CAST(:now AS BIGINT), updated_at = CAST(:now AS BIGINT),
       provider = (SELECT e.value->>0 FROM json_each(:stages) AS e WHERE e.key = kind || ' ' || stage)
 WHERE id IN (SELECT k FROM picked)
RETURNING CAST(id AS TEXT) AS id
