-- The kernel's tables. Times are milliseconds since the epoch, JSON is TEXT, invariants are CHECK constraints.

CREATE TABLE holdfast_jobs (
  id /*id*/ PRIMARY KEY,
  kind TEXT NOT NULL,
  queue TEXT NOT NULL,
  stage TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'queued'
    CHECK (state IN ('queued', 'processing', 'waiting', 'succeeded', 'dead', 'cancelled')),
  parked SMALLINT NOT NULL DEFAULT 0 CHECK (parked IN (0, 1)),
  hold TEXT,
  provider TEXT,
  priority SMALLINT NOT NULL DEFAULT 2 CHECK (priority BETWEEN 0 AND 3),
  attempt BIGINT NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0,
  crashes INTEGER NOT NULL DEFAULT 0,
  epoch INTEGER NOT NULL DEFAULT 0,
  run_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  started_at BIGINT,
  finished_at BIGINT,
  deadline_at BIGINT,
  last_attempt_at BIGINT,
  first_failure_at BIGINT,
  not_before BIGINT,
  lease_owner TEXT,
  lease_until BIGINT,
  wait_key TEXT,
  job_key TEXT,
  fingerprint TEXT,
  owner TEXT,
  trace TEXT,
  payload TEXT NOT NULL,
  error TEXT,
  CHECK ((state = 'processing') = (lease_until IS NOT NULL)),
  CHECK ((state = 'waiting') = (wait_key IS NOT NULL)),
  CHECK ((state IN ('succeeded', 'dead', 'cancelled')) = (finished_at IS NOT NULL)),
  CHECK (parked = 0 OR state = 'queued')
);

-- @postgres
ALTER TABLE holdfast_jobs SET (
  fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0
);

-- Follows the claim's ORDER BY exactly, and holds nothing that cannot be claimed.
CREATE INDEX holdfast_jobs_ready ON holdfast_jobs (queue, priority, run_at) WHERE state = 'queued' AND parked = 0;
CREATE INDEX holdfast_jobs_parked ON holdfast_jobs (provider, run_at) WHERE state = 'queued' AND parked = 1;
CREATE INDEX holdfast_jobs_lease ON holdfast_jobs (lease_until) WHERE state = 'processing';
CREATE INDEX holdfast_jobs_deadline ON holdfast_jobs (deadline_at)
  WHERE deadline_at IS NOT NULL AND state IN ('queued', 'processing', 'waiting');
CREATE UNIQUE INDEX holdfast_jobs_key ON holdfast_jobs (kind, job_key) WHERE job_key IS NOT NULL;
CREATE UNIQUE INDEX holdfast_jobs_wait ON holdfast_jobs (wait_key) WHERE wait_key IS NOT NULL;
CREATE INDEX holdfast_jobs_overdue ON holdfast_jobs (run_at) WHERE state = 'waiting';
CREATE INDEX holdfast_jobs_owner ON holdfast_jobs (owner, id) WHERE owner IS NOT NULL;

CREATE TABLE holdfast_job_events (
  seq /*identity*/,
  job_id /*id*/ NOT NULL,
  attempt BIGINT NOT NULL,
  type TEXT NOT NULL,
  at BIGINT NOT NULL,
  data TEXT
);
CREATE INDEX holdfast_job_events_job ON holdfast_job_events (job_id, seq);

CREATE TABLE holdfast_results (
  job_id /*id*/ NOT NULL,
  stage TEXT NOT NULL,
  attempt BIGINT NOT NULL,
  is_late SMALLINT NOT NULL DEFAULT 0 CHECK (is_late IN (0, 1)),
  at BIGINT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (job_id, stage, is_late)
);

CREATE TABLE holdfast_outbox (
  seq /*identity*/,
  id /*id*/ NOT NULL UNIQUE,
  aggregate_id TEXT NOT NULL,
  destination TEXT NOT NULL,
  message_type TEXT NOT NULL,
  payload TEXT NOT NULL,
  headers TEXT NOT NULL DEFAULT '{}',
  status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'published', 'failed')),
  created_at BIGINT NOT NULL,
  available_at BIGINT NOT NULL,
  processed_at BIGINT,
  retry_count INTEGER NOT NULL DEFAULT 0,
  error_message TEXT,
  lease_token TEXT,
  lease_until BIGINT,
  CHECK ((status = 'published') = (processed_at IS NOT NULL))
);
CREATE INDEX holdfast_outbox_pending ON holdfast_outbox (available_at, seq) WHERE status = 'pending';
CREATE INDEX holdfast_outbox_aggregate ON holdfast_outbox (aggregate_id, seq) WHERE status = 'pending';

CREATE TABLE holdfast_inbox (
  consumer TEXT NOT NULL,
  message_id TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  received_at BIGINT NOT NULL,
  PRIMARY KEY (consumer, message_id)
);

CREATE TABLE holdfast_effects (
  key TEXT PRIMARY KEY,
  token TEXT NOT NULL UNIQUE,
  job_id /*id*/,
  kind TEXT NOT NULL,
  stage TEXT NOT NULL,
  provider TEXT NOT NULL,
  provider_class TEXT NOT NULL CHECK (provider_class IN ('token', 'lookup', 'neither')),
  status TEXT NOT NULL CHECK (status IN ('planned', 'sending', 'unknown', 'sent', 'failed', 'review')),
  provider_id TEXT,
  marked_at BIGINT,
  epoch INTEGER NOT NULL DEFAULT 0,
  attempt BIGINT NOT NULL DEFAULT 0,
  sends INTEGER NOT NULL DEFAULT 0,
  first_sent_at BIGINT,
  last_sent_at BIGINT,
  error_class TEXT,
  error TEXT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
);
CREATE INDEX holdfast_effects_job ON holdfast_effects (job_id);
CREATE INDEX holdfast_effects_doubt ON holdfast_effects (updated_at)
  WHERE status IN ('sending', 'unknown', 'review') OR (status = 'sent' AND provider_id IS NULL);

CREATE TABLE holdfast_breakers (
  name TEXT PRIMARY KEY,
  gate TEXT NOT NULL DEFAULT 'closed' CHECK (gate IN ('closed', 'open', 'half_open')),
  state TEXT NOT NULL DEFAULT '{}',
  not_before BIGINT,
  tokens DOUBLE PRECISION,
  tokens_at BIGINT,
  places TEXT NOT NULL DEFAULT '{}',
  ramp INTEGER NOT NULL DEFAULT 0,
  ramp_at BIGINT NOT NULL DEFAULT 0,
  updated_at BIGINT NOT NULL
);

CREATE TABLE holdfast_breaker_events (
  seq /*identity*/,
  name TEXT NOT NULL,
  gate TEXT NOT NULL,
  at BIGINT NOT NULL,
  reason TEXT NOT NULL
);

CREATE TABLE holdfast_calls (
  id /*id*/ PRIMARY KEY,
  job_id /*id*/,
  stage TEXT,
  attempt BIGINT,
  provider TEXT NOT NULL,
  started_at BIGINT NOT NULL,
  duration_ms BIGINT NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('ok', 'failed', 'ambiguous')),
  status INTEGER,
  error_class TEXT,
  cost_micros BIGINT NOT NULL DEFAULT 0,
  units TEXT
);
CREATE INDEX holdfast_calls_job ON holdfast_calls (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX holdfast_calls_recent ON holdfast_calls (provider, started_at);

CREATE TABLE holdfast_dead_letters (
  id /*id*/ PRIMARY KEY,
  job_id /*id*/ NOT NULL UNIQUE,
  request_id TEXT,
  kind TEXT NOT NULL,
  stage TEXT NOT NULL,
  provider TEXT,
  state TEXT NOT NULL
    CHECK (state IN ('open', 'triaged', 'remediated', 'replayed', 'resolved', 'escalated')),
  error_class TEXT NOT NULL,
  category TEXT NOT NULL,
  retryable SMALLINT NOT NULL CHECK (retryable IN (0, 1)),
  failure_reason TEXT NOT NULL,
  attempts_made INTEGER NOT NULL,
  last_error TEXT NOT NULL,
  last_stack TEXT NOT NULL,
  first_failure_at BIGINT NOT NULL,
  last_failure_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  original TEXT NOT NULL,
  sanitized_context TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  cause TEXT CHECK (cause IS NULL OR cause IN ('transient', 'data', 'auth_config', 'code')),
  evidence TEXT,
  notes TEXT,
  deaths INTEGER NOT NULL DEFAULT 1,
  replays INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX holdfast_dead_letters_work ON holdfast_dead_letters (state, id);
CREATE INDEX holdfast_dead_letters_group ON holdfast_dead_letters (fingerprint, state);

CREATE TABLE holdfast_audit (
  seq /*identity*/,
  at BIGINT NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  subject TEXT NOT NULL,
  data TEXT
);
CREATE INDEX holdfast_audit_subject ON holdfast_audit (subject, seq);

CREATE TABLE holdfast_idempotency (
  scope TEXT NOT NULL,
  key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  status INTEGER NOT NULL,
  body TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (scope, key)
);

CREATE TABLE holdfast_schedules (
  name TEXT PRIMARY KEY,
  cron TEXT NOT NULL,
  kind TEXT NOT NULL,
  payload TEXT NOT NULL,
  next_at BIGINT NOT NULL,
  last_at BIGINT,
  updated_at BIGINT NOT NULL
);

CREATE TABLE holdfast_workers (
  name TEXT PRIMARY KEY,
  queues TEXT NOT NULL,
  started_at BIGINT NOT NULL,
  seen_at BIGINT NOT NULL,
  in_flight INTEGER NOT NULL DEFAULT 0
);

-- For people: the specification's names, readable times.
-- @postgres
CREATE VIEW holdfast_jobs_readable AS
SELECT id, kind, queue, stage, state AS status, failures AS attempt_count, crashes, lease_owner AS leased_by,
       to_timestamp(lease_until / 1000.0) AS lease_expires_at, to_timestamp(run_at / 1000.0) AS retry_after,
       to_timestamp(created_at / 1000.0) AS created_at, to_timestamp(started_at / 1000.0) AS started_at,
       to_timestamp(last_attempt_at / 1000.0) AS last_attempt_at, to_timestamp(updated_at / 1000.0) AS updated_at,
       to_timestamp(finished_at / 1000.0) AS finished_at, to_timestamp(deadline_at / 1000.0) AS deadline_at,
       hold, error
  FROM holdfast_jobs;

-- @sqlite
CREATE VIEW holdfast_jobs_readable AS
SELECT id, kind, queue, stage, state AS status, failures AS attempt_count, crashes, lease_owner AS leased_by,
       datetime(lease_until / 1000, 'unixepoch') AS lease_expires_at,
       datetime(run_at / 1000, 'unixepoch') AS retry_after, datetime(created_at / 1000, 'unixepoch') AS created_at,
       datetime(started_at / 1000, 'unixepoch') AS started_at,
       datetime(last_attempt_at / 1000, 'unixepoch') AS last_attempt_at,
       datetime(updated_at / 1000, 'unixepoch') AS updated_at,
       datetime(finished_at / 1000, 'unixepoch') AS finished_at,
       datetime(deadline_at / 1000, 'unixepoch') AS deadline_at, hold, error
  FROM holdfast_jobs;
