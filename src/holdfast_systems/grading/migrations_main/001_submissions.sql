-- The main app's tables. Times are milliseconds since the epoch, JSON is TEXT.

CREATE TABLE submissions (
  id /*id*/ PRIMARY KEY,
  user_id TEXT NOT NULL,
  skill TEXT NOT NULL CHECK (skill IN ('writing', 'speaking')),
  payload TEXT NOT NULL,
  request_id TEXT NOT NULL UNIQUE,
  attempt INTEGER NOT NULL DEFAULT 1,
  created_at BIGINT NOT NULL,
  deadline_at BIGINT NOT NULL,
  version BIGINT NOT NULL DEFAULT 0,
  updated_at BIGINT NOT NULL,
  status TEXT NOT NULL DEFAULT 'PENDING'
    CHECK (status IN ('PENDING', 'PROCESSING', 'REVIEW_REQUIRED', 'COMPLETED', 'FAILED')),
  step TEXT,
  progress DOUBLE PRECISION,
  ai_result TEXT,
  human_result TEXT,
  final_result TEXT,
  failure_reason TEXT,
  is_late SMALLINT NOT NULL DEFAULT 0 CHECK (is_late IN (0, 1)),
  audit_flag SMALLINT NOT NULL DEFAULT 0 CHECK (audit_flag IN (0, 1)),
  priority_rank SMALLINT CHECK (priority_rank BETWEEN 0 AND 3),
  mode TEXT CHECK (mode IN ('ai', 'hybrid', 'human')),
  claimed_by TEXT,
  claimed_at BIGINT,
  reviewed_by TEXT,
  finished_at BIGINT,
  CHECK ((status = 'COMPLETED') = (final_result IS NOT NULL)),
  CHECK ((status = 'FAILED') = (failure_reason IS NOT NULL)),
  CHECK ((status IN ('COMPLETED', 'FAILED')) = (finished_at IS NOT NULL)),
  CHECK (status <> 'REVIEW_REQUIRED' OR (ai_result IS NOT NULL AND priority_rank IS NOT NULL))
);
CREATE INDEX submissions_owner ON submissions (user_id, id);
CREATE INDEX submissions_deadline ON submissions (deadline_at) WHERE status IN ('PENDING', 'PROCESSING');
CREATE INDEX submissions_review ON submissions (priority_rank, id) WHERE status = 'REVIEW_REQUIRED';

-- What the learner is told, in order: `seq` is the submission's version, given under its row lock.
CREATE TABLE submission_events (
  event_id TEXT PRIMARY KEY,
  submission_id /*id*/ NOT NULL,
  seq BIGINT NOT NULL,
  kind TEXT NOT NULL,
  data TEXT NOT NULL,
  at BIGINT NOT NULL,
  UNIQUE (submission_id, seq)
);

-- The inbox of callbacks: a row is written in the transaction of the callback's effects.
CREATE TABLE processed_callbacks (
  event_id TEXT PRIMARY KEY,
  request_id TEXT NOT NULL,
  submission_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  outcome TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  processed_at BIGINT NOT NULL
);
CREATE INDEX processed_callbacks_request ON processed_callbacks (request_id);

-- Callbacks that are none, by the hash of their bytes: for people, never for a second try.
CREATE TABLE refused_callbacks (
  fingerprint TEXT PRIMARY KEY,
  request_id TEXT,
  submission_id TEXT,
  reason TEXT NOT NULL,
  size_bytes BIGINT NOT NULL,
  times BIGINT NOT NULL DEFAULT 1,
  first_at BIGINT NOT NULL,
  last_at BIGINT NOT NULL
);
