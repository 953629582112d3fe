-- `attempt_count` means one thing to people, to the systems and in their APIs: the attempts of the stage that count
-- against its budget, the one that succeeded or is under way included. (It was the failed ones only.)
-- oldest: 9

-- @postgres
CREATE OR REPLACE VIEW holdfast_job_status AS
SELECT j.id, j.kind, j.queue, j.stage, j.state, j.provider, j.parked, j.hold, j.priority, j.owner, j.attempt, j.failures,
       j.crashes, j.epoch, j.created_at, j.updated_at, j.run_at, j.started_at, j.finished_at, j.deadline_at,
       j.last_attempt_at, j.first_failure_at, j.error,
       (SELECT d.id FROM holdfast_dead_letters AS d WHERE d.job_id = j.id) AS dead_letter_id,
       j.failures + CASE WHEN j.state IN ('processing', 'waiting', 'succeeded') THEN 1 ELSE 0 END AS attempt_count
  FROM holdfast_jobs AS j;

-- @postgres
CREATE OR REPLACE VIEW holdfast_jobs_readable AS
SELECT id, kind, queue, stage,
       CASE state WHEN 'succeeded' THEN 'complete' WHEN 'dead' THEN 'failed' ELSE state END AS status,
       failures + CASE WHEN state IN ('processing', 'waiting', 'succeeded') THEN 1 ELSE 0 END AS attempt_count,
       crashes, lease_owner AS leased_by,
       to_timestamp(lease_until / 1000.0) AS lease_expires_at,
       CASE WHEN state = 'queued' AND is_due = 0 THEN to_timestamp(run_at / 1000.0) END AS retry_after,
       to_timestamp(created_at / 1000.0) AS created_at, to_timestamp(started_at / 1000.0) AS started_at,
       to_timestamp(last_attempt_at / 1000.0) AS last_attempt_at, to_timestamp(updated_at / 1000.0) AS updated_at,
       to_timestamp(finished_at / 1000.0) AS finished_at, to_timestamp(deadline_at / 1000.0) AS deadline_at,
       hold, version, error
  FROM holdfast_jobs;

-- @sqlite
DROP VIEW holdfast_job_status;

-- @sqlite
CREATE VIEW holdfast_job_status AS
SELECT j.id, j.kind, j.queue, j.stage, j.state, j.provider, j.parked, j.hold, j.priority, j.owner, j.attempt, j.failures,
       j.crashes, j.epoch, j.created_at, j.updated_at, j.run_at, j.started_at, j.finished_at, j.deadline_at,
       j.last_attempt_at, j.first_failure_at, j.error,
       (SELECT d.id FROM holdfast_dead_letters AS d WHERE d.job_id = j.id) AS dead_letter_id,
       j.failures + CASE WHEN j.state IN ('processing', 'waiting', 'succeeded') THEN 1 ELSE 0 END AS attempt_count
  FROM holdfast_jobs AS j;

-- @sqlite
DROP VIEW holdfast_jobs_readable;

-- @sqlite
CREATE VIEW holdfast_jobs_readable AS
SELECT id, kind, queue, stage,
       CASE state WHEN 'succeeded' THEN 'complete' WHEN 'dead' THEN 'failed' ELSE state END AS status,
       failures + CASE WHEN state IN ('processing', 'waiting', 'succeeded') THEN 1 ELSE 0 END AS attempt_count,
       crashes, lease_owner AS leased_by,
       datetime(lease_until / 1000, 'unixepoch') AS lease_expires_at,
       CASE WHEN state = 'queued' AND is_due = 0 THEN datetime(run_at / 1000, 'unixepoch') END AS retry_after,
       datetime(created_at / 1000, 'unixepoch') AS created_at,
       datetime(started_at / 1000, 'unixepoch') AS started_at,
       datetime(last_attempt_at / 1000, 'unixepoch') AS last_attempt_at,
       datetime(updated_at / 1000, 'unixepoch') AS updated_at,
       datetime(finished_at / 1000, 'unixepoch') AS finished_at,
       datetime(deadline_at / 1000, 'unixepoch') AS deadline_at, hold, version, error
  FROM holdfast_jobs;
