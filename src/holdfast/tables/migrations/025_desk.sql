-- What an operator needs: pauses of kinds and queues, workers that are to take nothing more, what was logged in an
-- attempt, and the past by the minute.
-- oldest: 9

CREATE TABLE holdfast_pauses (
  sort      TEXT NOT NULL CHECK (sort IN ('kind', 'queue')),
  name      TEXT NOT NULL,
  is_paused SMALLINT NOT NULL CHECK (is_paused IN (0, 1)),
  since     BIGINT NOT NULL,
  actor     TEXT NOT NULL,
  reason    TEXT NOT NULL,
  PRIMARY KEY (sort, name)
);

ALTER TABLE holdfast_workers ADD COLUMN drain_at BIGINT;
ALTER TABLE holdfast_workers ADD COLUMN release TEXT;

-- `sum` is of the series' own unit: milliseconds, or millionths of a currency unit. A `bucket` is an upper bound in
-- milliseconds, 0 where nothing was timed.
CREATE TABLE holdfast_rollups (
  span   BIGINT NOT NULL,
  at     BIGINT NOT NULL,
  series TEXT NOT NULL,
  name   TEXT NOT NULL,
  part   TEXT NOT NULL,
  result TEXT NOT NULL,
  bucket BIGINT NOT NULL,
  number BIGINT NOT NULL,
  sum    BIGINT NOT NULL,
  PRIMARY KEY (span, at, series, name, part, result, bucket)
);
CREATE TABLE holdfast_rollup_positions (
  name TEXT PRIMARY KEY,
  seq  BIGINT NOT NULL,
  at   BIGINT NOT NULL
);

CREATE TABLE holdfast_logs (
  job_id  /*id*/ NOT NULL,
  attempt BIGINT NOT NULL,
  lines   TEXT NOT NULL,
  PRIMARY KEY (job_id, attempt)
);
