-- name: keep
-- The present attempt as history, read from its own row: the caller holds its lock, and begins the next one after it.
INSERT INTO submission_attempts (request_id, submission_id, attempt, user_id, created_at, deadline_at, finished_at,
                                 failure_reason, ai_result, is_late, superseded_at, superseded_by)
SELECT request_id, id, attempt, user_id, COALESCE(attempt_at, created_at), deadline_at, finished_at,
       failure_reason, ai_result, is_late, CAST(:now AS BIGINT), :actor
  FROM submissions WHERE id = CAST(:submission_id AS /*id*/)

-- name: begin
-- Like `save`, it names the version it leaves; only what has failed begins again.
UPDATE submissions
   SET version = version + 1, updated_at = CAST(:now AS BIGINT), attempt_at = CAST(:now AS BIGINT),
       attempt = attempt + 1, request_id = :request_id, deadline_at = :deadline_at, status = 'PENDING', step = NULL,
       progress = NULL, ai_result = NULL, final_result = NULL, failure_reason = NULL, is_late = 0, audit_flag = 0,
       finished_at = NULL
 WHERE id = CAST(:submission_id AS /*id*/) AND status = 'FAILED' AND version = :version
RETURNING version

-- name: lock
SELECT CAST(submission_id AS TEXT) AS submission_id, deadline_at FROM submission_attempts
 WHERE request_id = :request_id /*for_update*/

-- name: keep_result
-- The first result of an attempt stands, also when nobody waits for it any more.
UPDATE submission_attempts SET ai_result = :ai_result, is_late = :is_late
 WHERE request_id = :request_id AND ai_result IS NULL

-- name: of_submission
SELECT request_id, attempt, created_at, deadline_at, finished_at, failure_reason, ai_result, is_late, superseded_at,
       superseded_by
  FROM submission_attempts WHERE submission_id = CAST(:submission_id AS /*id*/) ORDER BY attempt

-- name: forget
DELETE FROM submission_attempts WHERE submission_id IN (
  SELECT CAST(e.key AS /*id*/) FROM json_each(:gone) AS e)
