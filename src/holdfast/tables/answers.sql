-- name: put
-- The first answer of a run stands. Whoever lost its lease may write too: what was paid for is the job's, as long as the
-- job is where the question was asked.
INSERT INTO holdfast_answers (job_id, stage, epoch, run, tries, value, at)
SELECT CAST(e.value->>0 AS /*id*/), e.value->>1, CAST(e.value->>2 AS INTEGER), e.value->>3,
       CAST(e.value->>4 AS INTEGER), e.value->>5, CAST(:now AS BIGINT)
  FROM json_each(:batch) AS e
 WHERE EXISTS (SELECT 1 FROM holdfast_jobs AS j
                WHERE j.id = CAST(e.value->>0 AS /*id*/) AND j.stage = e.value->>1
                  AND j.epoch = CAST(e.value->>2 AS INTEGER)
                  AND CASE WHEN j.state IN ('queued', 'processing', 'waiting') THEN TRUE ELSE FALSE END)
ON CONFLICT (job_id, stage, epoch, run) DO UPDATE
   SET value = COALESCE(holdfast_answers.value, excluded.value), at = excluded.at,
       tries = CASE WHEN excluded.tries > holdfast_answers.tries THEN excluded.tries ELSE holdfast_answers.tries END

-- name: of_stage
SELECT run, tries, value FROM holdfast_answers
 WHERE job_id = CAST(:job_id AS /*id*/) AND stage = :stage AND epoch = :epoch

-- name: of_job
SELECT a.stage, a.run, a.value FROM holdfast_answers AS a
  JOIN holdfast_jobs AS j ON j.id = a.job_id AND j.epoch = a.epoch
 WHERE a.job_id = CAST(:job_id AS /*id*/) AND a.value IS NOT NULL ORDER BY a.at, a.run

-- name: restore
-- For a job that was written with its history: at whichever stage it stands.
INSERT INTO holdfast_answers (job_id, stage, epoch, run, tries, value, at)
SELECT CAST(e.value->>0 AS /*id*/), e.value->>1, CAST(e.value->>2 AS INTEGER), e.value->>3,
       CAST(e.value->>4 AS INTEGER), e.value->>5, CAST(:now AS BIGINT)
  FROM json_each(:batch) AS e

-- name: parked
-- Jobs that wait inside of a stage, among these: what they wait for is written there as an answer.
SELECT CAST(j.id AS TEXT) AS id FROM holdfast_jobs AS j
  JOIN holdfast_answers AS a ON a.job_id = j.id AND a.stage = j.stage AND a.epoch = j.epoch
                            AND a.run = 'until:' || j.wait_key
 WHERE j.id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e)

-- name: forget
DELETE FROM holdfast_answers WHERE job_id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e)

-- name: prune
-- Of jobs that have left the stage or ended without their last attempt's help: cancelled, swept, replayed, forgotten.
-- A dead job keeps its own: they are what its exported history is run with.
DELETE FROM holdfast_answers
 WHERE job_id > CAST(:after AS /*id*/) AND job_id IN (
   SELECT a.job_id FROM holdfast_answers AS a
    WHERE a.job_id > CAST(:after AS /*id*/)
      AND NOT EXISTS (SELECT 1 FROM holdfast_jobs AS j
                       WHERE j.id = a.job_id AND j.stage = a.stage AND j.epoch = a.epoch
                         AND j.state IN ('queued', 'processing', 'waiting', 'dead'))
    ORDER BY a.job_id LIMIT :limit)
   AND NOT EXISTS (SELECT 1 FROM holdfast_jobs AS j
                    WHERE j.id = holdfast_answers.job_id AND j.stage = holdfast_answers.stage
                      AND j.epoch = holdfast_answers.epoch
                      AND j.state IN ('queued', 'processing', 'waiting', 'dead'))
RETURNING CAST(job_id AS TEXT) AS job_id
