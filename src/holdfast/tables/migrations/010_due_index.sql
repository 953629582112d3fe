-- oldest: 4
-- concurrently
-- The index of what is due follows the order of a claim; what is not due yet lies in one of its own.

CREATE INDEX holdfast_jobs_due ON holdfast_jobs (queue, priority, created_at)
  WHERE state = 'queued' AND parked = 0 AND is_due = 1;

CREATE INDEX holdfast_jobs_later ON holdfast_jobs (queue, run_at) WHERE state = 'queued' AND is_due = 0;

DROP INDEX holdfast_jobs_ready;
