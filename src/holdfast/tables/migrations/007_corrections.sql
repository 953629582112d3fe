-- oldest: 4
-- The input of a dead job may be corrected before its replay; what it was before is kept with the job.
-- `replay_stage` is where that replay must begin, if the input of an earlier stage than the failed one has changed.

CREATE TABLE holdfast_corrections (
  seq /*identity*/,
  case_id /*id*/ NOT NULL,
  job_id /*id*/ NOT NULL,
  at BIGINT NOT NULL,
  actor TEXT NOT NULL,
  reason TEXT,
  before TEXT NOT NULL,
  after TEXT NOT NULL
);
CREATE INDEX holdfast_corrections_job ON holdfast_corrections (job_id, seq);

ALTER TABLE holdfast_dead_letters ADD COLUMN replay_stage TEXT;
