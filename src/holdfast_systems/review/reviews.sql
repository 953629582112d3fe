-- name: lock_changelist
-- Makes the changelist's row if there is none, and holds it until the end of the transaction.
INSERT INTO review_changelists (changelist_id, latest_version, updated_at)
VALUES (:changelist_id, 0, CAST(:now AS BIGINT))
ON CONFLICT (changelist_id) DO UPDATE SET updated_at = CAST(:now AS BIGINT)
RETURNING latest_version

-- name: raise_version
UPDATE review_changelists SET latest_version = :review_version
 WHERE changelist_id = :changelist_id AND latest_version < :review_version

-- name: usage
-- What a caller asked for, by the jobs that are still kept.
SELECT COUNT(CASE WHEN created_at > :since THEN 1 END) AS made,
       MIN(CASE WHEN created_at > :since THEN created_at END) AS first_at,
       COUNT(CASE WHEN state IN ('queued', 'processing', 'waiting') THEN 1 END) AS unfinished
  FROM holdfast_job_status WHERE owner = :owner AND kind = :kind

-- name: take_key
INSERT INTO review_keys (idempotency_key, review_id, fingerprint, at)
VALUES (:idempotency_key, CAST(:review_id AS /*id*/), :fingerprint, CAST(:now AS BIGINT))
ON CONFLICT DO NOTHING
RETURNING idempotency_key

-- name: insert
INSERT INTO reviews (id, changelist_id, review_version, idempotency_key, fingerprint, job_id, source, title, sender,
                     created_at, updated_at)
VALUES (CAST(:id AS /*id*/), :changelist_id, :review_version, :idempotency_key, :fingerprint, CAST(:job_id AS /*id*/),
        :source, :title, :sender, CAST(:now AS BIGINT), CAST(:now AS BIGINT))

-- name: by_key
-- `fingerprint` is of the request that came with the key.
SELECT CAST(r.id AS TEXT) AS id, r.changelist_id, r.review_version, r.idempotency_key, k.fingerprint,
       CAST(r.job_id AS TEXT) AS job_id, r.source, r.title, r.sender, r.status, r.created_at, r.updated_at,
       r.finished_at, r.result, r.failed_stage, r.error_class, r.error, j.state AS job_state, j.stage AS job_stage,
       j.first_failure_at, j.error AS job_error, j.run_at, CAST(j.dead_letter_id AS TEXT) AS dead_letter_id
  FROM review_keys AS k JOIN reviews AS r ON r.id = k.review_id
       LEFT JOIN holdfast_job_status AS j ON j.id = r.job_id
 WHERE k.idempotency_key = :idempotency_key

-- name: by_version
SELECT CAST(r.id AS TEXT) AS id, r.changelist_id, r.review_version, r.idempotency_key, r.fingerprint,
       CAST(r.job_id AS TEXT) AS job_id, r.source, r.title, r.sender, r.status, r.created_at, r.updated_at,
       r.finished_at, r.result, r.failed_stage, r.error_class, r.error, j.state AS job_state, j.stage AS job_stage,
       j.first_failure_at, j.error AS job_error, j.run_at, CAST(j.dead_letter_id AS TEXT) AS dead_letter_id
  FROM reviews AS r LEFT JOIN holdfast_job_status AS j ON j.id = r.job_id
 WHERE r.changelist_id = :changelist_id AND r.review_version = :review_version

-- name: of_changelist
-- The newest version first.
SELECT CAST(r.id AS TEXT) AS id, r.changelist_id, r.review_version, r.idempotency_key, r.fingerprint,
       CAST(r.job_id AS TEXT) AS job_id, r.source, r.title, r.sender, r.status, r.created_at, r.updated_at,
       r.finished_at, r.result, r.failed_stage, r.error_class, r.error, j.state AS job_state, j.stage AS job_stage,
       j.first_failure_at, j.error AS job_error, j.run_at, CAST(j.dead_letter_id AS TEXT) AS dead_letter_id
  FROM reviews AS r LEFT JOIN holdfast_job_status AS j ON j.id = r.job_id
 WHERE r.changelist_id = :changelist_id AND r.review_version < CAST(:before AS BIGINT)
 ORDER BY r.review_version DESC LIMIT :limit

-- name: correct
UPDATE reviews SET source = :source, title = :title, updated_at = CAST(:now AS BIGINT)
 WHERE id = CAST(:id AS /*id*/)

-- name: criticised
UPDATE reviews SET result = :result, title = :title, updated_at = CAST(:now AS BIGINT)
 WHERE job_id = CAST(:job_id AS /*id*/)

-- name: finish
-- The end of its job, in the job's own transaction: who may end a job was settled there.
UPDATE reviews
   SET status = :status, failed_stage = :failed_stage, error_class = :error_class, error = :error,
       finished_at = CAST(:now AS BIGINT), updated_at = CAST(:now AS BIGINT)
 WHERE job_id = CAST(:job_id AS /*id*/)
RETURNING changelist_id, review_version

-- name: taken_back
-- Finished reviews of which a delivery turned out not to have happened: the lookup cleared its marks.
SELECT CAST(r.id AS TEXT) AS id, r.changelist_id, r.review_version
  FROM reviews AS r
 WHERE r.status = 'succeeded' AND r.updated_at >= :since
   AND EXISTS (SELECT 1 FROM review_deliveries AS d
                WHERE d.changelist_id = r.changelist_id AND d.review_version = r.review_version AND d.required = 1
                  AND d.status IN ('pending', 'retrying'))
 ORDER BY r.updated_at LIMIT :limit

-- name: reopen
UPDATE reviews
   SET status = 'in_progress', finished_at = NULL, job_id = CAST(:job_id AS /*id*/), updated_at = CAST(:now AS BIGINT)
 WHERE id = CAST(:id AS /*id*/) AND status = 'succeeded'
RETURNING id

-- name: chunks
SELECT chunk_no, chunk_sha256, value FROM review_chunks WHERE review_id = CAST(:review_id AS /*id*/)

-- name: put_chunk
INSERT INTO review_chunks (review_id, chunk_no, chunk_sha256, value, at)
VALUES (CAST(:review_id AS /*id*/), :chunk_no, :chunk_sha256, :value, CAST(:now AS BIGINT))
ON CONFLICT (review_id, chunk_no)
DO UPDATE SET chunk_sha256 = excluded.chunk_sha256, value = excluded.value, at = excluded.at
