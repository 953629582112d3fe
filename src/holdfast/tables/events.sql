-- name: append
-- brief
INSERT INTO holdfast_job_events (job_id, attempt, type, at, data)
SELECT CAST(e.value->>0 AS /*id*/), CAST(e.value->>1 AS BIGINT), e.value->>2, CAST(:now AS BIGINT), e.value->>3
  FROM json_each(:batch) AS e

-- name: append_once
INSERT INTO holdfast_job_events (job_id, attempt, type, at, data)
SELECT CAST(:job_id AS /*id*/), CAST(:attempt AS BIGINT), CAST(:type AS TEXT), CAST(:now AS BIGINT),
       CAST(:data AS TEXT)
 WHERE NOT EXISTS (SELECT 1 FROM holdfast_job_events AS e
                    WHERE e.job_id = CAST(:job_id AS /*id*/) AND e.type = :type AND e.data = :data)
RETURNING seq

-- name: of_job
-- A job's row is the event of its creation: nothing else is written then. The limit is of rows: what one row tells in two
-- steps is not torn apart.
SELECT seq, attempt, type, at, data
  FROM (SELECT 0 AS seq, 0 AS part, 0 AS attempt, 'created' AS type, created_at AS at, NULL AS data FROM holdfast_jobs
         WHERE id = CAST(:job_id AS /*id*/) AND CAST(:after AS BIGINT) < 0
         UNION ALL
        SELECT seq, part, attempt, type, at, data FROM holdfast_every_event
         WHERE job_id = CAST(:job_id AS /*id*/) AND seq > :after
           AND seq <= (SELECT MAX(next.seq) FROM (SELECT e.seq FROM holdfast_job_events AS e
                        WHERE e.job_id = CAST(:job_id AS /*id*/) AND e.seq > :after
                        ORDER BY e.seq LIMIT :limit) AS next)) AS story
 ORDER BY seq, part

-- name: last_data
-- brief
SELECT data FROM holdfast_job_events
 WHERE job_id = CAST(:job_id AS /*id*/) AND type = :type ORDER BY seq DESC LIMIT 1

-- name: failed_in_stage
-- The attempts of the job's present stage and epoch that failed or lost their worker, and were not its last.
SELECT COUNT(*) AS n FROM holdfast_job_events
 WHERE job_id = CAST(:job_id AS /*id*/) AND type IN ('retried', 'lost') AND seq > COALESCE(
       (SELECT MAX(seq) FROM holdfast_job_events
         WHERE job_id = CAST(:job_id AS /*id*/) AND type IN ('advanced', 'went_on', 'replayed')), 0)

-- name: forget
DELETE FROM holdfast_job_events
 WHERE job_id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e)
