-- The grading service's own table: one row per request, whatever the broker repeats.

CREATE TABLE grading_jobs (
  request_id TEXT PRIMARY KEY,
  job_id /*id*/ NOT NULL UNIQUE,
  submission_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  skill TEXT NOT NULL CHECK (skill IN ('writing', 'speaking')),
  attempt INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  trace_id TEXT,
  status TEXT NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'completed', 'failed')),
  answer TEXT,
  told_provider TEXT NOT NULL DEFAULT '',
  told_generation BIGINT NOT NULL DEFAULT -1,
  received_at BIGINT NOT NULL,
  deadline_at BIGINT NOT NULL,
  finished_at BIGINT,
  repeats BIGINT NOT NULL DEFAULT 0,
  CHECK ((status = 'running') = (answer IS NULL)),
  CHECK ((status = 'running') = (finished_at IS NULL))
);
