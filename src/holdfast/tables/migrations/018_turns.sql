-- A new job of a kind that takes turns waits, parked, until its key's turn has come; `turn_at` is when that was.
-- oldest: 9

-- @postgres
ALTER TABLE holdfast_jobs ADD COLUMN fair_key TEXT COLLATE "C";

-- @sqlite
ALTER TABLE holdfast_jobs ADD COLUMN fair_key TEXT;

ALTER TABLE holdfast_jobs ADD COLUMN turn_at BIGINT;
CREATE INDEX holdfast_jobs_turns ON holdfast_jobs (queue, priority, fair_key, run_at) WHERE hold = 'turn';
CREATE INDEX holdfast_jobs_admitted ON holdfast_jobs (queue, run_at)
  WHERE fair_key IS NOT NULL AND state = 'queued' AND parked = 0;
CREATE INDEX holdfast_jobs_begun ON holdfast_jobs (fair_key) WHERE turn_at IS NOT NULL AND finished_at IS NULL;
CREATE INDEX holdfast_jobs_turn_at ON holdfast_jobs (fair_key, turn_at) WHERE turn_at IS NOT NULL;

-- Whoever lets jobs of a queue in holds its row.
CREATE TABLE holdfast_turns (
  queue TEXT PRIMARY KEY
);
