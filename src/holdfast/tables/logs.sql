-- name: put
-- What an attempt logged, once it has ended. One that is written again, because the database's answer was lost, is there
-- once.
INSERT INTO holdfast_logs (job_id, attempt, lines)
SELECT CAST(e.value->>0 AS /*id*/), CAST(e.value->>1 AS BIGINT), e.value->>2 FROM json_each(:batch) AS e WHERE TRUE
ON CONFLICT (job_id, attempt) DO NOTHING

-- name: of_job
SELECT attempt, lines FROM holdfast_logs WHERE job_id = CAST(:job_id AS /*id*/) ORDER BY attempt

-- name: forget
DELETE FROM holdfast_logs WHERE job_id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e)
