-- name: page
-- The newest first; `before` is the last id of the page before. A filter that is NULL asks for nothing.
SELECT CAST(id AS TEXT) AS id, user_id, skill, payload, request_id, attempt, created_at, deadline_at, version,
       updated_at, status, step, progress, ai_result, human_result, final_result, failure_reason, is_late, audit_flag,
       priority_rank, mode, claimed_by, claimed_at, reviewed_by, finished_at
  FROM submissions
 WHERE (CAST(:before AS TEXT) IS NULL OR id < CAST(:before AS /*id*/))
   AND (CAST(:status AS TEXT) IS NULL OR status = :status)
   AND (CAST(:reason AS TEXT) IS NULL OR failure_reason = :reason)
   AND (CAST(:user_id AS TEXT) IS NULL OR user_id = :user_id)
   AND (CAST(:is_late AS INTEGER) IS NULL OR is_late = :is_late)
   AND (CAST(:is_flagged AS INTEGER) IS NULL OR audit_flag = :is_flagged)
 ORDER BY submissions.id DESC LIMIT :limit

-- name: callbacks_of
-- What came for any attempt of a submission, and what named it without being an answer to any.
SELECT event_id, request_id, submission_id, kind, outcome, processed_at FROM processed_callbacks
 WHERE request_id IN (SELECT s.request_id FROM submissions AS s WHERE s.id = CAST(:id AS /*id*/)
                      UNION ALL
                      SELECT a.request_id FROM submission_attempts AS a WHERE a.submission_id = CAST(:id AS /*id*/))
    OR submission_id = :name
 ORDER BY processed_at, event_id LIMIT :limit

-- name: refused_of
SELECT fingerprint, request_id, submission_id, reason, size_bytes, times, first_at, last_at FROM refused_callbacks
 WHERE request_id IN (SELECT s.request_id FROM submissions AS s WHERE s.id = CAST(:id AS /*id*/)
                      UNION ALL
                      SELECT a.request_id FROM submission_attempts AS a WHERE a.submission_id = CAST(:id AS /*id*/))
    OR submission_id = :name
 ORDER BY last_at DESC LIMIT :limit

-- name: refused
-- The newest first; the cursor is the time and the fingerprint of the last row of the page before.
SELECT fingerprint, request_id, submission_id, reason, size_bytes, times, first_at, last_at FROM refused_callbacks
 WHERE last_at < :before OR (last_at = :before AND fingerprint < :after)
 ORDER BY last_at DESC, fingerprint DESC LIMIT :limit
