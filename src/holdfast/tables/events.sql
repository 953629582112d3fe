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
-- A job's row is the event of its creation: nothing else is written then.
SELECT seq, part, attempt, type, at, data
  FROM (SELECT 0 AS seq, 0 AS part, 0 AS attempt, 'created' AS type, created_at AS at, NULL AS data FROM holdfast_jobs
         WHERE id = CAST(:job_id AS /*id*/)
         UNION ALL
        SELECT seq, part, attempt, type, at, data FROM holdfast_every_event
         WHERE job_id = CAST(:job_id AS /*id*/)) AS story
 WHERE CASE part WHEN 0 THEN seq > CAST(:seq AS BIGINT) ELSE 2 * attempt + part > CAST(:step AS BIGINT) END
 ORDER BY seq, part LIMIT :limit

-- name: write_success
-- Before a success is taken back: what the job's row shows of it, as an event.
INSERT INTO holdfast_job_events (job_id, attempt, type, at, claimed_at)
SELECT j.id, j.attempt, 'succeeded', j.finished_at, CASE WHEN NOT EXISTS (
         SELECT 1 FROM holdfast_job_events AS c
          WHERE c.job_id = j.id AND c.attempt = j.attempt AND c.claimed_at IS NOT NULL) THEN j.last_attempt_at END
  FROM holdfast_jobs AS j
 WHERE j.id = CAST(:job_id AS /*id*/) AND j.state = 'succeeded'
   AND NOT EXISTS (SELECT 1 FROM holdfast_job_events AS e
                    WHERE e.job_id = j.id AND e.attempt = j.attempt AND e.type = 'succeeded')

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
