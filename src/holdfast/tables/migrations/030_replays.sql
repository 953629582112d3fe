-- Replays of a whole group of dead letters: who began one and how it is known that it helps, how fast, and which letters
-- are in it, with how often each had died by then. A letter that has not been taken yet has no `done_at`; one that could not be replayed says why.
-- oldest: 9

CREATE TABLE holdfast_replays (
  id          /*id*/ PRIMARY KEY,
  fingerprint TEXT NOT NULL,
  kind        TEXT NOT NULL,
  stage       TEXT NOT NULL,
  error_class TEXT NOT NULL,
  actor       TEXT NOT NULL,
  cause       TEXT NOT NULL,
  evidence    TEXT,
  changes     TEXT,
  is_full     SMALLINT NOT NULL CHECK (is_full IN (0, 1)),
  per_minute  DOUBLE PRECISION,
  state       TEXT NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'paused', 'stopped', 'done')),
  next_at     BIGINT NOT NULL,
  created_at  BIGINT NOT NULL,
  ended_at    BIGINT,
  CHECK ((state IN ('stopped', 'done')) = (ended_at IS NOT NULL))
);
-- Two people who begin at once begin one.
CREATE UNIQUE INDEX holdfast_replays_going_on ON holdfast_replays (fingerprint) WHERE state IN ('running', 'paused');
CREATE INDEX holdfast_replays_running ON holdfast_replays (next_at) WHERE state = 'running';
CREATE INDEX holdfast_replays_ended ON holdfast_replays (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE holdfast_replay_letters (
  replay_id /*id*/ NOT NULL,
  letter_id /*id*/ NOT NULL,
  job_id    /*id*/ NOT NULL,
  deaths    INTEGER NOT NULL,
  done_at   BIGINT,
  detail    TEXT,
  PRIMARY KEY (replay_id, letter_id)
);
CREATE INDEX holdfast_replay_letters_next ON holdfast_replay_letters (replay_id, letter_id) WHERE done_at IS NULL;
