-- The order of a claim is priority, then age, among what is due: what is not due yet stays out of the ready index.
-- A job knows which version its input has, and which stages it has done, so that code may change under it.

-- oldest: 9
-- Older code would not write down which stages it has done, and a newer worker would do them again.

ALTER TABLE holdfast_jobs ADD COLUMN is_due SMALLINT NOT NULL DEFAULT 1 CHECK (is_due IN (0, 1));
ALTER TABLE holdfast_jobs ADD COLUMN version INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1);
ALTER TABLE holdfast_jobs ADD COLUMN done TEXT DEFAULT '';

-- What each worker declares, so that anybody can tell which jobs no running worker would claim.
ALTER TABLE holdfast_workers ADD COLUMN declared TEXT NOT NULL DEFAULT '{}';

-- Nobody wrote down which stages these have done.
UPDATE holdfast_jobs SET done = NULL
 WHERE state NOT IN ('succeeded', 'cancelled') AND attempt > 0;

-- @postgres
UPDATE holdfast_jobs SET is_due = 0
 WHERE state = 'queued' AND parked = 0 AND run_at > extract(epoch FROM clock_timestamp()) * 1000;

-- @sqlite
UPDATE holdfast_jobs SET is_due = 0
 WHERE state = 'queued' AND parked = 0 AND run_at > CAST(strftime('%s', 'now') AS INTEGER) * 1000;

-- For people: the sources' names and states, readable times. `retry_after` is NULL unless the job waits for a time.
DROP VIEW holdfast_jobs_readable;

-- @postgres
CREATE VIEW holdfast_jobs_readable AS
SELECT id, kind, queue, stage,
       CASE state WHEN 'succeeded' THEN 'complete' WHEN 'dead' THEN 'failed' ELSE state END AS status,
       failures AS attempt_count, crashes, lease_owner AS leased_by,
       to_timestamp(lease_until / 1000.0) AS lease_expires_at,
       CASE WHEN state = 'queued' AND is_due = 0 THEN to_timestamp(run_at / 1000.0) END AS retry_after,
       to_timestamp(created_at / 1000.0) AS created_at, to_timestamp(started_at / 1000.0) AS started_at,
       to_timestamp(last_attempt_at / 1000.0) AS last_attempt_at, to_timestamp(updated_at / 1000.0) AS updated_at,
       to_timestamp(finished_at / 1000.0) AS finished_at, to_timestamp(deadline_at / 1000.0) AS deadline_at,
       hold, version, error
  FROM holdfast_jobs;

-- @sqlite
CREATE VIEW holdfast_jobs_readable AS
SELECT id, kind, queue, stage,
       CASE state WHEN 'succeeded' THEN 'complete' WHEN 'dead' THEN 'failed' ELSE state END AS status,
       failures AS attempt_count, crashes, lease_owner AS leased_by,
       datetime(lease_until / 1000, 'unixepoch') AS lease_expires_at,
       CASE WHEN state = 'queued' AND is_due = 0 THEN datetime(run_at / 1000, 'unixepoch') END AS retry_after,
       datetime(created_at / 1000, 'unixepoch') AS created_at,
       datetime(started_at / 1000, 'unixepoch') AS started_at,
       datetime(last_attempt_at / 1000, 'unixepoch') AS last_attempt_at,
       datetime(updated_at / 1000, 'unixepoch') AS updated_at,
       datetime(finished_at / 1000, 'unixepoch') AS finished_at,
       datetime(deadline_at / 1000, 'unixepoch') AS deadline_at, hold, version, error
  FROM holdfast_jobs;
