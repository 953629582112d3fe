-- name: put
-- New ones only: an id that is known is an error. (ON CONFLICT writes each row twice to the log, and then confirms it.)
INSERT INTO holdfast_calls (id, job_id, stage, attempt, provider, started_at, duration_ms, outcome, status, error_class,
                            cost_micros, units)
SELECT CAST(n.id AS /*id*/), CAST(n.job_id AS /*id*/), n.stage, n.attempt, n.provider, n.started_at, n.duration_ms, n.outcome,
       n.status, n.error_class, n.cost_micros, n.units
  FROM (SELECT /*NewCall from e*/ FROM json_each(:batch) AS e) AS n

-- name: put_again
-- A call that is written again, because the database's answer was lost, is there once.
INSERT INTO holdfast_calls (id, job_id, stage, attempt, provider, started_at, duration_ms, outcome, status, error_class,
                            cost_micros, units)
SELECT CAST(n.id AS /*id*/), CAST(n.job_id AS /*id*/), n.stage, n.attempt, n.provider, n.started_at, n.duration_ms, n.outcome,
       n.status, n.error_class, n.cost_micros, n.units
  FROM (SELECT /*NewCall from e*/ FROM json_each(:batch) AS e) AS n WHERE TRUE
    ON CONFLICT (id) DO NOTHING
RETURNING CAST(id AS TEXT) AS id

-- name: of_job
SELECT stage, attempt, provider, started_at, duration_ms, outcome, status, error_class, cost_micros, units
  FROM holdfast_every_call WHERE job_id = CAST(:job_id AS /*id*/) ORDER BY started_at, id

-- name: spending
SELECT c.started_at / 86400000 AS day, c.provider, j.kind, COUNT(*) AS calls,
       SUM(CASE WHEN c.outcome = 'ok' THEN 0 ELSE 1 END) AS failed,
       SUM(c.cost_micros) AS cost_micros, SUM(c.duration_ms) AS duration_ms
  FROM holdfast_every_call AS c LEFT JOIN holdfast_jobs AS j ON j.id = c.job_id
 WHERE c.started_at >= :since GROUP BY c.started_at / 86400000, c.provider, j.kind ORDER BY 1 DESC, 2, 3

-- name: prune
-- Ids sort by time, as those of jobs do.
DELETE FROM holdfast_calls WHERE id IN (
  SELECT id FROM holdfast_calls WHERE id > CAST(:after AS /*id*/) AND id < CAST(:upto AS /*id*/) AND started_at < :before
   ORDER BY id LIMIT :limit)
RETURNING CAST(id AS TEXT) AS id
