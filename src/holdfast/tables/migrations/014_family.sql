-- Children and what joins them, callbacks that came first, and schedules with time zones, jitter and rules.
-- oldest: 9

-- Which join a job is a child of; NULL for every job that nobody's stage has spawned.
ALTER TABLE holdfast_jobs ADD COLUMN join_id TEXT;
CREATE INDEX holdfast_jobs_children ON holdfast_jobs (join_id, id) WHERE join_id IS NOT NULL;

-- What one stage of one job has spawned together. `unended` counts down in the commits that end the children.
CREATE TABLE holdfast_joins (
  id TEXT PRIMARY KEY,
  parent_id /*id*/ NOT NULL,
  epoch INTEGER NOT NULL,
  stage TEXT NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('spawning', 'sealed', 'loose', 'joined', 'left', 'gone')),
  size INTEGER NOT NULL DEFAULT 0,
  unended INTEGER NOT NULL DEFAULT 0,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  UNIQUE (parent_id, epoch, stage, name)
);
CREATE INDEX holdfast_joins_ready ON holdfast_joins (updated_at) WHERE state = 'sealed' AND unended = 0;
CREATE INDEX holdfast_joins_left ON holdfast_joins (updated_at) WHERE state = 'left';

-- Answers that nobody waits for yet. The first one of a key stands.
CREATE TABLE holdfast_callbacks (
  key TEXT PRIMARY KEY,
  body TEXT NOT NULL,
  received_at BIGINT NOT NULL
);
CREATE INDEX holdfast_callbacks_old ON holdfast_callbacks (received_at);

ALTER TABLE holdfast_schedules ADD COLUMN timezone TEXT NOT NULL DEFAULT 'UTC';
ALTER TABLE holdfast_schedules ADD COLUMN jitter_ms BIGINT NOT NULL DEFAULT 0;
ALTER TABLE holdfast_schedules ADD COLUMN overlap TEXT NOT NULL DEFAULT 'allow' CHECK (overlap IN ('allow', 'skip'));
ALTER TABLE holdfast_schedules ADD COLUMN paused SMALLINT NOT NULL DEFAULT 0 CHECK (paused IN (0, 1));
ALTER TABLE holdfast_schedules ADD COLUMN added SMALLINT NOT NULL DEFAULT 0 CHECK (added IN (0, 1));
