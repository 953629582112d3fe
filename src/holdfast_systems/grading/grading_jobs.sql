-- name: insert
-- The request id decides: a second delivery, a second consumer or a second main app inserts nothing.
INSERT INTO grading_jobs (request_id, job_id, submission_id, user_id, skill, attempt, fingerprint, trace_id,
                          received_at, deadline_at)
VALUES (:request_id, CAST(:job_id AS /*id*/), :submission_id, :user_id, :skill, :attempt, :fingerprint, :trace_id,
        CAST(:now AS BIGINT), :deadline_at)
ON CONFLICT DO NOTHING
RETURNING request_id

-- name: repeated
-- Counts a duplicate, locks the row, and shows what is known of the request.
UPDATE grading_jobs SET repeats = repeats + 1 WHERE request_id = :request_id
RETURNING request_id, CAST(job_id AS TEXT) AS job_id, submission_id, user_id, skill, attempt, fingerprint, trace_id,
          status, answer, deadline_at

-- name: of_request
SELECT request_id, CAST(job_id AS TEXT) AS job_id, submission_id, user_id, skill, attempt, fingerprint, trace_id,
       status, answer, deadline_at
  FROM grading_jobs WHERE request_id = :request_id

-- name: of_job
SELECT request_id, CAST(job_id AS TEXT) AS job_id, submission_id, user_id, skill, attempt, fingerprint, trace_id,
       status, answer, deadline_at
  FROM grading_jobs WHERE job_id = CAST(:job_id AS /*id*/)

-- name: finish
-- A result is for ever; a failure may still become one, if a person replays the dead letter.
UPDATE grading_jobs SET status = :status, answer = :answer, finished_at = CAST(:now AS BIGINT)
 WHERE request_id = :request_id AND status <> 'completed'
RETURNING request_id

-- name: keep_original
INSERT INTO grading_originals (request_id, body, kept_at) VALUES (:request_id, :body, CAST(:now AS BIGINT))
ON CONFLICT DO NOTHING

-- name: original
SELECT body FROM grading_originals WHERE request_id = :request_id

-- name: tell_one
UPDATE grading_jobs SET told_provider = :provider, told_generation = :generation
 WHERE request_id = :request_id AND status = 'running'
   AND (told_provider <> :provider OR told_generation < :generation)
RETURNING request_id, CAST(job_id AS TEXT) AS job_id, submission_id, user_id, skill, attempt, fingerprint, trace_id,
          status, answer, deadline_at

-- name: tell_parked
-- Jobs that the claim parked behind an open breaker run no handler, so nobody else would tell of them. The outer guard
-- is judged again after waiting for another instance's lock: a job is told once per opening.
UPDATE grading_jobs SET told_provider = :provider, told_generation = :generation
 WHERE request_id IN (
   SELECT g.request_id FROM holdfast_job_status AS j JOIN grading_jobs AS g ON g.job_id = j.id
    WHERE j.state = 'queued' AND j.parked = 1 AND j.provider = :provider
      AND g.status = 'running' AND (g.told_provider <> :provider OR g.told_generation < :generation)
    ORDER BY g.request_id LIMIT :limit)
   AND status = 'running' AND (told_provider <> :provider OR told_generation < :generation)
RETURNING request_id, CAST(job_id AS TEXT) AS job_id, submission_id, user_id, skill, attempt, fingerprint, trace_id,
          status, answer, deadline_at
