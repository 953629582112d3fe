-- The attempts of a submission that are over: a resubmission puts the one before it here, with all that came of it.

CREATE TABLE submission_attempts (
  request_id TEXT PRIMARY KEY,
  submission_id /*id*/ NOT NULL,
  attempt INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  deadline_at BIGINT NOT NULL,
  finished_at BIGINT NOT NULL,
  failure_reason TEXT NOT NULL,
  ai_result TEXT,
  is_late SMALLINT NOT NULL DEFAULT 0 CHECK (is_late IN (0, 1)),
  superseded_at BIGINT NOT NULL,
  superseded_by TEXT NOT NULL,
  UNIQUE (submission_id, attempt)
);
CREATE INDEX submission_attempts_owner ON submission_attempts (user_id, created_at);
-- When the present attempt began; NULL for the first, which began with the submission.
ALTER TABLE submissions ADD COLUMN attempt_at BIGINT;
-- The operator's desk finds what named a submission without being an answer to any of its requests.
CREATE INDEX processed_callbacks_submission ON processed_callbacks (submission_id);
