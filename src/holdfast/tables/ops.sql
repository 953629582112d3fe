-- name: case_of_job
SELECT CAST(id AS TEXT) AS id, state, stage, error_class, failure_reason FROM holdfast_dead_letters
 WHERE job_id = CAST(:job_id AS /*id*/)

-- name: jobs_page
-- The newest first; `before` is the last id of the page before.
SELECT CAST(id AS TEXT) AS id, kind, queue, stage, state, parked, hold, provider, priority, attempt, failures, crashes,
       epoch, run_at, created_at, updated_at, started_at, finished_at, deadline_at, lease_owner, lease_until, owner,
       job_key, error
  FROM holdfast_jobs
 WHERE (CAST(:before AS TEXT) IS NULL OR id < CAST(:before AS /*id*/))
   AND (CAST(:state AS TEXT) IS NULL OR state = :state)
   AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
   AND (CAST(:queue AS TEXT) IS NULL OR queue = :queue)
   AND (CAST(:stage AS TEXT) IS NULL OR stage = :stage)
   AND (CAST(:provider AS TEXT) IS NULL OR provider = :provider)
   AND (CAST(:owner AS TEXT) IS NULL OR owner = :owner)
 ORDER BY id DESC LIMIT :limit

-- name: jobs_found
-- By any id that a person may hold in hand: of the job, its key, its callback, its trace, its dead letter.
SELECT CAST(id AS TEXT) AS id, kind, queue, stage, state, parked, hold, provider, priority, attempt, failures, crashes,
       epoch, run_at, created_at, updated_at, started_at, finished_at, deadline_at, lease_owner, lease_until, owner,
       job_key, error
  FROM holdfast_jobs
 WHERE (CAST(:before AS TEXT) IS NULL OR id < CAST(:before AS /*id*/))
   AND (CAST(id AS TEXT) = :wanted OR job_key = :wanted OR wait_key = :wanted OR trace = :wanted
        OR id IN (SELECT d.job_id FROM holdfast_dead_letters AS d
                   WHERE CAST(d.id AS TEXT) = :wanted OR d.request_id = :wanted))
 ORDER BY id DESC LIMIT :limit

-- name: outbox_page
SELECT seq, CAST(id AS TEXT) AS id, aggregate_id, destination, message_type, status, created_at, available_at,
       processed_at, retry_count, error_message
  FROM holdfast_outbox
 WHERE (CAST(:before AS BIGINT) IS NULL OR seq < :before) AND (CAST(:status AS TEXT) IS NULL OR status = :status)
 ORDER BY seq DESC LIMIT :limit

-- name: effects_page
SELECT key, provider, provider_class, status, provider_id, sends, first_sent_at, last_sent_at, marked_at, error_class,
       error, kind, stage, CAST(job_id AS TEXT) AS job_id, created_at, updated_at
  FROM holdfast_effects
 WHERE (CAST(:before AS TEXT) IS NULL OR key < :before)
   AND (CAST(:status AS TEXT) IS NULL OR status = :status)
   AND (CAST(:provider AS TEXT) IS NULL OR provider = :provider)
 ORDER BY key DESC LIMIT :limit

-- name: audit_page
SELECT seq, at, actor, action, subject, data FROM holdfast_audit
 WHERE (CAST(:before AS BIGINT) IS NULL OR seq < :before)
   AND (CAST(:actor AS TEXT) IS NULL OR actor = :actor)
   AND (CAST(:subject AS TEXT) IS NULL OR subject = :subject)
 ORDER BY seq DESC LIMIT :limit

-- name: versions
SELECT namespace, MAX(version) AS version FROM holdfast_schema GROUP BY namespace
