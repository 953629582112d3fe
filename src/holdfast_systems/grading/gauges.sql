-- name: live
-- By the index of deadlines, which has only these.
SELECT status, COUNT(*) AS submissions, MIN(COALESCE(attempt_at, created_at)) AS oldest_at FROM submissions
 WHERE status IN ('PENDING', 'PROCESSING') GROUP BY status

-- name: in_review
SELECT priority_rank, COUNT(*) AS submissions, MIN(created_at) AS oldest_at FROM submissions
 WHERE status = 'REVIEW_REQUIRED' GROUP BY priority_rank

-- name: ended
SELECT status, failure_reason, COUNT(*) AS submissions FROM submissions
 WHERE finished_at > :since GROUP BY status, failure_reason

-- name: last_callback
SELECT MAX(processed_at) AS at FROM processed_callbacks
