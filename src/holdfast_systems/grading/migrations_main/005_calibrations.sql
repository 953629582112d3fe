-- What instructors' reviews taught: one row a fit, taken or not, and at most one in use for a skill.

CREATE TABLE calibrations (
  version BIGINT PRIMARY KEY,
  skill TEXT NOT NULL CHECK (skill IN ('writing', 'speaking')),
  status TEXT NOT NULL CHECK (status IN ('active', 'retired', 'refused', 'rolled_back')),
  fit TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  created_by TEXT NOT NULL
);
CREATE UNIQUE INDEX calibrations_active ON calibrations (skill) WHERE status = 'active';
CREATE INDEX submissions_reviewed ON submissions (skill, finished_at) WHERE human_result IS NOT NULL;
