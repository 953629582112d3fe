-- The requests that a dead letter on the queue refers to: they outlive the jobs that were made of them.

CREATE TABLE grading_originals (
  request_id TEXT PRIMARY KEY,
  body TEXT NOT NULL,
  kept_at BIGINT NOT NULL
);
CREATE INDEX grading_originals_age ON grading_originals (kept_at);
