-- name: insert
INSERT INTO submissions (id, user_id, skill, payload, request_id, attempt, created_at, deadline_at, updated_at)
VALUES (CAST(:id AS /*id*/), :user_id, :skill, :payload, :request_id, :attempt, CAST(:now AS BIGINT), :deadline_at,
        CAST(:now AS BIGINT))

-- name: create @postgres
-- Several POSTs in one round trip, which is its own commit: each key with its answer, the submission, the message to the
-- grading service and the relay's wake-up, or nothing of that one. Keys are taken in order, so that two processes never
-- wait for each other; the body, which holds the submission's own id, tells which of two equal keys won. As statements
-- of a transaction each, nine round trips, a POST took 2.4 ms of CPU; now it takes less than half.
WITH given AS MATERIALIZED (
  SELECT CAST(e.key AS uuid) AS id, e.value->>0 AS scope, e.value->>1 AS key, e.value->>2 AS fingerprint,
         CAST(e.value->>3 AS INTEGER) AS status, e.value->>4 AS body, e.value->>5 AS user_id, e.value->>6 AS skill,
         e.value->>7 AS payload, e.value->>8 AS request_id, CAST(e.value->>9 AS INTEGER) AS attempt,
         CAST(e.value->>10 AS BIGINT) AS created_at, CAST(e.value->>11 AS BIGINT) AS deadline_at,
         CAST(e.value->>12 AS uuid) AS message_id, e.value->>13 AS aggregate_id, e.value->>14 AS destination,
         e.value->>15 AS message_type, e.value->>16 AS message, e.value->>17 AS headers
    FROM json_each(:batch) AS e),
won AS (
  INSERT INTO holdfast_idempotency (scope, key, fingerprint, status, body, created_at)
  SELECT scope, key, fingerprint, status, body, CAST(:now AS BIGINT) FROM given ORDER BY scope, key, id
      ON CONFLICT DO NOTHING
  RETURNING scope, key, body),
first AS MATERIALIZED (
  SELECT g.* FROM given AS g JOIN won AS w ON w.scope = g.scope AND w.key = g.key AND w.body = g.body),
kept AS (
  INSERT INTO submissions (id, user_id, skill, payload, request_id, attempt, created_at, deadline_at, updated_at)
  SELECT id, user_id, skill, payload, request_id, attempt, created_at, deadline_at, created_at FROM first),
told AS (
  INSERT INTO holdfast_outbox (id, aggregate_id, destination, message_type, payload, headers, created_at, available_at)
  SELECT message_id, aggregate_id, destination, message_type, message, headers, CAST(:now AS BIGINT),
         CAST(:now AS BIGINT) FROM first ORDER BY id)
SELECT CAST(id AS TEXT) AS id, pg_notify('holdfast', 'outbox') FROM first

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
-- Every change within an attempt. It names the status and the version it leaves: zero rows back means it is not ours.
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
 ORDER BY submissions.id DESC LIMIT :limit

-- name: usage
-- By the owner's indexes; a learner has few. Every attempt counts as one made.
SELECT COUNT(CASE WHEN u.begun_at > :since THEN 1 END) AS made,
       MIN(CASE WHEN u.begun_at > :since THEN u.begun_at END) AS first_at,
       COUNT(CASE WHEN u.status IN ('PENDING', 'PROCESSING') THEN 1 END) AS unfinished
  FROM (SELECT COALESCE(s.attempt_at, s.created_at) AS begun_at, s.status
          FROM submissions AS s WHERE s.user_id = :user_id
        UNION ALL
        SELECT a.created_at AS begun_at, 'FAILED' AS status
          FROM submission_attempts AS a WHERE a.user_id = :user_id AND a.created_at > :since) AS u

-- name: in_review
-- By priority, then age. The cursor is the rank and id of the last row of the page before. `free_for`: not claimed by
-- anybody else.
SELECT CAST(id AS TEXT) AS id, user_id, skill, payload, request_id, attempt, created_at, deadline_at, version,
       updated_at, status, step, progress, ai_result, human_result, final_result, failure_reason, is_late, audit_flag,
       priority_rank, mode, claimed_by, claimed_at, reviewed_by, finished_at
  FROM submissions
 WHERE status = 'REVIEW_REQUIRED' AND (priority_rank > :rank OR (priority_rank = :rank AND id > CAST(:after AS /*id*/)))
   AND (CAST(:skill AS TEXT) IS NULL OR skill = :skill)
   AND (CAST(:only_rank AS INTEGER) IS NULL OR priority_rank = :only_rank)
   AND (CAST(:free_for AS TEXT) IS NULL OR claimed_by IS NULL OR claimed_by = :free_for)
 ORDER BY priority_rank, submissions.id LIMIT :limit

-- name: review_mark
-- A value that differs whenever the queue does: what came, what went, who has claimed what.
SELECT COUNT(*) AS waiting, COALESCE(SUM(version), 0) AS versions, MAX(updated_at) AS last_at
  FROM submissions WHERE status = 'REVIEW_REQUIRED'

-- name: review_counts
SELECT skill, priority_rank, COUNT(*) AS waiting FROM submissions WHERE status = 'REVIEW_REQUIRED'
 GROUP BY skill, priority_rank

-- name: reviewed_by
-- What an instructor has decided, the newest submission first.
SELECT CAST(id AS TEXT) AS id, user_id, skill, payload, request_id, attempt, created_at, deadline_at, version,
       updated_at, status, step, progress, ai_result, human_result, final_result, failure_reason, is_late, audit_flag,
       priority_rank, mode, claimed_by, claimed_at, reviewed_by, finished_at
  FROM submissions
 WHERE reviewed_by = :instructor AND (CAST(:before AS TEXT) IS NULL OR id < CAST(:before AS /*id*/))
 ORDER BY submissions.id DESC LIMIT :limit

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
