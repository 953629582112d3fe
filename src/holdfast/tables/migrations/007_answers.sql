-- oldest: 4
-- What paid calls were answered, until the stage that asked has its result: a later attempt reads it and pays nothing.

CREATE TABLE holdfast_answers (
  job_id /*id*/ NOT NULL,
  stage TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  run TEXT NOT NULL,
  tries INTEGER NOT NULL DEFAULT 0,
  value TEXT,
  at BIGINT NOT NULL,
  PRIMARY KEY (job_id, stage, epoch, run)
);
