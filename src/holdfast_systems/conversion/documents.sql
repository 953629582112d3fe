-- name: insert
INSERT INTO conversion_documents (id, owner, filename, source, size, sha256, priority, webhook_url, created_at,
                                  queued_at, updated_at)
VALUES (CAST(:id AS /*id*/), :owner, :filename, :source, :size, :sha256, :priority, :webhook_url, CAST(:now AS BIGINT),
        CAST(:now AS BIGINT), CAST(:now AS BIGINT))

-- name: show
SELECT CAST(d.id AS TEXT) AS id, d.owner, d.filename, d.source, d.size, d.sha256, d.priority, d.webhook_url,
       d.created_at, d.queued_at, d.updated_at, d.finished_at, d.outcome, d.attempts, d.error_code, d.error_message,
       d.result_size, d.result_sha256, d.expires_at, d.source_until, d.source_gone,
       j.state, j.attempt_count, j.hold, j.run_at, j.started_at, j.last_attempt_at, j.updated_at AS job_updated_at, j.epoch
  FROM conversion_documents AS d LEFT JOIN holdfast_job_status AS j ON j.id = d.id
 WHERE d.id = CAST(:id AS /*id*/)

-- name: page
-- The newest first; `before` is the last id of the page before.
SELECT CAST(d.id AS TEXT) AS id, d.owner, d.filename, d.source, d.size, d.sha256, d.priority, d.webhook_url,
       d.created_at, d.queued_at, d.updated_at, d.finished_at, d.outcome, d.attempts, d.error_code, d.error_message,
       d.result_size, d.result_sha256, d.expires_at, d.source_until, d.source_gone,
       j.state, j.attempt_count, j.hold, j.run_at, j.started_at, j.last_attempt_at, j.updated_at AS job_updated_at, j.epoch
  FROM conversion_documents AS d LEFT JOIN holdfast_job_status AS j ON j.id = d.id
 WHERE d.owner = :owner AND (CAST(:before AS TEXT) IS NULL OR d.id < CAST(:before AS /*id*/))
 ORDER BY d.id DESC LIMIT :limit

-- name: usage
SELECT (SELECT COUNT(*) FROM conversion_documents AS d WHERE d.owner = :owner AND d.created_at > :since) AS uploads,
       (SELECT MIN(d.created_at) FROM conversion_documents AS d WHERE d.owner = :owner AND d.created_at > :since) AS first_at,
       (SELECT COUNT(*) FROM holdfast_job_status AS j
         WHERE j.owner = :owner AND j.kind = :kind AND j.state IN ('queued', 'processing', 'waiting')) AS unfinished

-- name: complete
UPDATE conversion_documents
   SET outcome = 'complete', finished_at = CAST(:now AS BIGINT), updated_at = CAST(:now AS BIGINT),
       attempts = :attempts, result_size = :size, result_sha256 = :sha256, expires_at = CAST(:expires_at AS BIGINT),
       source_until = CAST(:now AS BIGINT), error_code = NULL, error_message = NULL
 WHERE id = CAST(:id AS /*id*/)

-- name: fail
UPDATE conversion_documents
   SET outcome = 'failed', finished_at = CAST(:now AS BIGINT), updated_at = CAST(:now AS BIGINT),
       attempts = :attempts, error_code = :code, error_message = :message, source_until = CAST(:source_until AS BIGINT)
 WHERE id = CAST(:id AS /*id*/)

-- name: cancel
UPDATE conversion_documents
   SET outcome = 'cancelled', finished_at = CAST(:now AS BIGINT), updated_at = CAST(:now AS BIGINT),
       attempts = :attempts, source_until = CAST(:now AS BIGINT)
 WHERE id = CAST(:id AS /*id*/)

-- name: put_back
-- The job waits again, after a failed attempt or because it was held, released or repeated.
UPDATE conversion_documents
   SET outcome = NULL, finished_at = NULL, updated_at = CAST(:now AS BIGINT), attempts = :attempts,
       error_code = COALESCE(:code, error_code), error_message = COALESCE(:message, error_message), source_until = NULL
 WHERE id = CAST(:id AS /*id*/)

-- name: requeue
UPDATE conversion_documents
   SET outcome = NULL, finished_at = NULL, updated_at = CAST(:now AS BIGINT), queued_at = CAST(:now AS BIGINT),
       attempts = 0, error_code = NULL, error_message = NULL, source_until = NULL
 WHERE id = CAST(:id AS /*id*/) AND source_gone = 0
RETURNING CAST(id AS TEXT) AS id

-- name: expiring
SELECT CAST(id AS TEXT) AS id, result_sha256 FROM conversion_documents
 WHERE outcome = 'complete' AND expires_at <= :now ORDER BY expires_at LIMIT :limit

-- name: expire
UPDATE conversion_documents SET outcome = 'expired', updated_at = CAST(:now AS BIGINT)
 WHERE id = CAST(:id AS /*id*/) AND outcome = 'complete' AND expires_at <= :now
RETURNING CAST(id AS TEXT) AS id

-- name: retire_sources
-- Sources that nobody needs. The job decides, too: one that was replayed needs its source whatever stands here.
UPDATE conversion_documents SET source_gone = 1
 WHERE id IN (SELECT d.id FROM conversion_documents AS d
               WHERE d.source_until <= :now AND d.source_gone = 0
                 AND NOT EXISTS (SELECT 1 FROM holdfast_job_status AS j
                                  WHERE j.id = d.id AND j.state IN ('queued', 'processing', 'waiting'))
               ORDER BY d.source_until LIMIT :limit)
RETURNING source

-- name: needed_sources
-- Of these ids, the ones whose source must stay.
SELECT CAST(d.id AS TEXT) AS id, NULL AS sha256 FROM conversion_documents AS d
 WHERE d.source_gone = 0 AND d.id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e)

-- name: needed_results
-- Of these ids, the ones whose result is there to be fetched, or may be written at this moment.
-- Of a job that lives nobody knows yet which: `sha256` is NULL.
SELECT CAST(d.id AS TEXT) AS id, CASE WHEN d.outcome = 'complete' THEN d.result_sha256 END AS sha256
  FROM conversion_documents AS d LEFT JOIN holdfast_job_status AS j ON j.id = d.id
 WHERE (d.outcome = 'complete' OR j.state IN ('queued', 'processing', 'waiting'))
   AND d.id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e)

-- name: forget
-- Documents whose job is forgotten and whose files are gone.
DELETE FROM conversion_documents
 WHERE id IN (SELECT d.id FROM conversion_documents AS d
               WHERE d.finished_at < :before AND d.outcome <> 'complete' AND d.source_gone = 1
                 AND NOT EXISTS (SELECT 1 FROM holdfast_job_status AS j WHERE j.id = d.id)
               ORDER BY d.finished_at LIMIT :limit)
RETURNING CAST(id AS TEXT) AS id
