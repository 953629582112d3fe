-- Incidents: what asks for a person, from when it begins to when somebody closes it, with the jobs that it hit.
-- oldest: 9

CREATE TABLE holdfast_incidents (
  id /*id*/ PRIMARY KEY,
  topic TEXT NOT NULL,
  subject TEXT NOT NULL,
  severity TEXT NOT NULL CHECK (severity IN ('page', 'ticket')),
  state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'over', 'closed')),
  sentence TEXT NOT NULL,
  began_at BIGINT NOT NULL,
  opened_at BIGINT NOT NULL,
  ended_at BIGINT,
  closed_at BIGINT,
  acknowledged_at BIGINT,
  acknowledged_by TEXT,
  assignee TEXT,
  summary TEXT,
  jobs_max INTEGER NOT NULL DEFAULT 0,
  owners_max INTEGER NOT NULL DEFAULT 0,
  CHECK ((state = 'open') = (ended_at IS NULL)),
  CHECK ((state = 'closed') = (closed_at IS NOT NULL))
);
-- Two processes that look at once open one incident.
CREATE UNIQUE INDEX holdfast_incidents_open ON holdfast_incidents (topic, subject) WHERE state = 'open';
CREATE INDEX holdfast_incidents_ended ON holdfast_incidents (ended_at) WHERE ended_at IS NOT NULL;

-- The jobs that an incident held or cost their lives; `late`: their deadline passed.
CREATE TABLE holdfast_incident_jobs (
  incident_id /*id*/ NOT NULL,
  job_id /*id*/ NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('held', 'dead', 'late')),
  letter_id /*id*/,
  at BIGINT NOT NULL,
  PRIMARY KEY (incident_id, job_id)
);

CREATE INDEX holdfast_dead_letters_failed ON holdfast_dead_letters (last_failure_at);
