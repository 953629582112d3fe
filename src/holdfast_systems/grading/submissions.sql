-- name: insert
INSERT INTO submissions (id, user_id, skill, payload, request_id, attempt, created_at, deadline_at, updated_at)
VALUES (CAST(:id AS /*id*/), :user_id, :skill, :payload, :request_id, :attempt, CAST(:now AS BIGINT), :deadline_at,
        CAST(:now AS BIGINT))

-- name: lock
SELECT CAST(id AS TEXT) AS id, user_id, skill, payload, request_id, attempt, created_at, deadline_at, version,
       updated_at, status, step, progress, ai_result, human_result, final_result, failure_reason, is_late, audit_flag,
       priority_rank, mode, claimed_by, claimed_at, reviewed_by, finished_at
  FROM submissions WHERE id = CAST(:id AS /*id*/) /*for_update*/

-- name: lock_by_request
SELECT CAST(id AS TEXT) AS id, user_id, skill, payload, request_id, attempt, created_at, deadline_at, version,
       updated_at, status, step, progress, ai_result, human_result, final_result, failure_reason, is_late, audit_flag,
       priority_rank, mode, claimed_by, claimed_at, reviewed_by, finished_at
  FROM submissions WHERE request_id = :request_id /*for_update*/

-- name: overdue
SELECT CAST(id AS TEXT) AS id, user_id, skill, payload, request_id, attempt, created_at, deadline_at, version,
       updated_at, status, step, progress, ai_result, human_result, final_result, failure_reason, is_late, audit_flag,
       priority_rank, mode, claimed_by, claimed_at, reviewed_by, finished_at
  FROM submissions WHERE status IN ('PENDING', 'PROCESSING') AND deadline_at < :now
 ORDER BY deadline_at LIMIT :limit /*skip_locked*/

-- name: save
-- The one UPDATE of a submission. It names the status and the version it leaves: zero rows back means it is not ours.
UPDATE submissions
   SET version = version + 1, updated_at = CAST(:now AS BIGINT), status = :status, step = :step,
       progress = CAST(:progress AS DOUBLE PRECISION), ai_result = :ai_result, human_result = :human_result,
       final_result = :final_result, failure_reason = :failure_reason, is_late = :is_late, audit_flag = :audit_flag,
       priority_rank = :priority_rank, mode = :mode, claimed_by = :claimed_by, claimed_at = :claimed_at,
       reviewed_by = :reviewed_by, finished_at = :finished_at
 WHERE id = CAST(:id AS /*id*/) AND status = :leaving AND version = :version
RETURNING version

-- name: tell
INSERT INTO submission_events (event_id, submission_id, seq, kind, data, at)
VALUES (:event_id, CAST(:submission_id AS /*id*/), :seq, :kind, :data, CAST(:now AS BIGINT))

-- name: events_after
-- All of a submission's events after one of them; from the beginning if that one is not known here.
SELECT event_id, seq, kind, data, at FROM submission_events
 WHERE submission_id = CAST(:submission_id AS /*id*/)
   AND seq > COALESCE((SELECT e.seq FROM submission_events AS e
                        WHERE e.event_id = :after AND e.submission_id = CAST(:submission_id AS /*id*/)), 0)
 ORDER BY seq LIMIT :limit

-- name: show
SELECT CAST(id AS TEXT) AS id, user_id, skill, payload, request_id, attempt, created_at, deadline_at, version,
       updated_at, status, step, progress, ai_result, human_result, final_result, failure_reason, is_late, audit_flag,
       priority_rank, mode, claimed_by, claimed_at, reviewed_by, finished_at
  FROM submissions WHERE id = CAST(:id AS /*id*/)

-- name: page
-- The newest first; `before` is the last id of the page before.
SELECT CAST(id AS TEXT) AS id, user_id, skill, payload, request_id, attempt, created_at, deadline_at, version,
       updated_at, status, step, progress, ai_result, human_result, final_result, failure_reason, is_late, audit_flag,
       priority_rank, mode, claimed_by, claimed_at, reviewed_by, finished_at
  FROM submissions
 WHERE user_id = :user_id AND (CAST(:before AS TEXT) IS NULL OR id < CAST(:before AS /*id*/))
   AND (CAST(:status AS TEXT) IS NULL OR status = :status)
 ORDER BY id DESC LIMIT :limit

-- name: recent
-- Ids sort by time, so the owner's index gives the newest first and stops at the limit.
SELECT created_at FROM (
  SELECT created_at FROM submissions WHERE user_id = :user_id ORDER BY id DESC LIMIT :limit) AS newest
 WHERE created_at > :since ORDER BY created_at DESC

-- name: in_review
-- By priority, then age. The cursor is the rank and id of the last row of the page before.
SELECT CAST(id AS TEXT) AS id, user_id, skill, payload, request_id, attempt, created_at, deadline_at, version,
       updated_at, status, step, progress, ai_result, human_result, final_result, failure_reason, is_late, audit_flag,
       priority_rank, mode, claimed_by, claimed_at, reviewed_by, finished_at
  FROM submissions
 WHERE status = 'REVIEW_REQUIRED' AND (priority_rank > :rank OR (priority_rank = :rank AND id > CAST(:after AS /*id*/)))
 ORDER BY priority_rank, id LIMIT :limit

-- name: accept_callback
INSERT INTO processed_callbacks (event_id, request_id, submission_id, kind, outcome, fingerprint, processed_at)
VALUES (:event_id, :request_id, :submission_id, :kind, 'accepted', :fingerprint, CAST(:now AS BIGINT))
ON CONFLICT DO NOTHING
RETURNING event_id

-- name: note_callback
UPDATE processed_callbacks SET outcome = :outcome WHERE event_id = :event_id

-- name: callback_fingerprint
SELECT fingerprint FROM processed_callbacks WHERE event_id = :event_id

-- name: refuse_callback
INSERT INTO refused_callbacks (fingerprint, request_id, submission_id, reason, size_bytes, first_at, last_at)
VALUES (:fingerprint, :request_id, :submission_id, :reason, :size_bytes, CAST(:now AS BIGINT), CAST(:now AS BIGINT))
ON CONFLICT (fingerprint) DO UPDATE SET times = refused_callbacks.times + 1, last_at = CAST(:now AS BIGINT)
