-- name: put
-- brief
INSERT INTO holdfast_results (job_id, stage, attempt, is_late, at, value)
SELECT CAST(e.value->>0 AS /*id*/), e.value->>1, CAST(e.value->>2 AS BIGINT), CAST(e.value->>3 AS SMALLINT),
       CAST(:now AS BIGINT), e.value->>4
  FROM json_each(:batch) AS e WHERE TRUE
    ON CONFLICT (job_id, stage, is_late) DO NOTHING

-- name: of_job
SELECT stage, attempt, is_late, at, value FROM holdfast_results
 WHERE job_id = CAST(:job_id AS /*id*/) ORDER BY at, stage

-- name: of_jobs
-- brief
-- The CASE keeps the planner on the jobs' ids: for a plain is_late = 0 it read every result there is, once a batch.
SELECT CAST(job_id AS TEXT) AS job_id, stage, value FROM holdfast_results
 WHERE CASE is_late WHEN 0 THEN TRUE ELSE FALSE END AND job_id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e)

-- name: clear
DELETE FROM holdfast_results WHERE job_id = CAST(:job_id AS /*id*/) AND is_late = 0

-- name: clear_stages
DELETE FROM holdfast_results
 WHERE job_id = CAST(:job_id AS /*id*/) AND is_late = 0 AND stage IN (SELECT e.key FROM json_each(:stages) AS e)

-- name: forget
DELETE FROM holdfast_results
 WHERE job_id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e)
