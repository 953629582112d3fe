-- Follows the claim's ORDER BY exactly, and holds nothing that cannot be claimed.
-- oldest: 9
-- concurrently

CREATE INDEX holdfast_jobs_next ON holdfast_jobs (queue, priority, created_at)
  WHERE state = 'queued' AND parked = 0 AND is_due = 1;
CREATE INDEX holdfast_jobs_later ON holdfast_jobs (queue, run_at) WHERE state = 'queued' AND is_due = 0;
DROP INDEX holdfast_jobs_ready;
