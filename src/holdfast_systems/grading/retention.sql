-- name: prune_submissions
-- Only what has ended; what waits for an instructor is kept however old it is.
DELETE FROM submissions WHERE id IN (
  SELECT s.id FROM submissions AS s WHERE s.finished_at < :before ORDER BY s.finished_at LIMIT :limit /*skip_locked*/)
RETURNING CAST(id AS TEXT) AS id

-- name: forget_events
DELETE FROM submission_events WHERE submission_id IN (
  SELECT CAST(e.key AS /*id*/) FROM json_each(:gone) AS e)

-- name: prune_callbacks
-- An event id is remembered at least as long as the submission it belongs to: a replay of it must stay harmless.
DELETE FROM processed_callbacks WHERE event_id IN (
  SELECT c.event_id FROM processed_callbacks AS c
   WHERE c.processed_at < :before
     AND NOT EXISTS (SELECT 1 FROM submissions AS s WHERE s.request_id = c.request_id)
     AND NOT EXISTS (SELECT 1 FROM submission_attempts AS a WHERE a.request_id = c.request_id)
   ORDER BY c.processed_at LIMIT :limit)
RETURNING event_id

-- name: prune_refused
DELETE FROM refused_callbacks WHERE fingerprint IN (
  SELECT r.fingerprint FROM refused_callbacks AS r WHERE r.last_at < :before ORDER BY r.last_at LIMIT :limit)
RETURNING fingerprint

-- name: prune_requests
-- A request whose job is still there and dead waits for a person: a replay of it must find whom to answer.
DELETE FROM grading_jobs WHERE request_id IN (
  SELECT g.request_id FROM grading_jobs AS g
   WHERE g.finished_at < :before
     AND NOT EXISTS (SELECT 1 FROM holdfast_job_status AS j
                      WHERE j.id = g.job_id AND j.state NOT IN ('succeeded', 'cancelled'))
   ORDER BY g.finished_at LIMIT :limit)
RETURNING request_id

-- name: prune_originals
DELETE FROM grading_originals WHERE request_id IN (
  SELECT o.request_id FROM grading_originals AS o WHERE o.kept_at < :before ORDER BY o.kept_at LIMIT :limit)
RETURNING request_id
