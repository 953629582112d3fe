-- The jobs that wait for their kind, so that whoever resumes it finds them.
-- oldest: 9
-- concurrently
CREATE INDEX holdfast_jobs_paused ON holdfast_jobs (kind, updated_at) WHERE hold = 'pause';
