-- name: live
-- Those that go on, and those that ended lately: a trouble that comes back belongs to the same incident.
SELECT CAST(id AS TEXT) AS id, topic, subject, severity, state, sentence, began_at, opened_at, ended_at, closed_at,
       acknowledged_at, acknowledged_by, assignee, summary, jobs_max, owners_max
  FROM holdfast_incidents WHERE state = 'open'
UNION ALL
SELECT CAST(id AS TEXT) AS id, topic, subject, severity, state, sentence, began_at, opened_at, ended_at, closed_at,
       acknowledged_at, acknowledged_by, assignee, summary, jobs_max, owners_max
  FROM holdfast_incidents WHERE ended_at IS NOT NULL AND ended_at >= :since AND state <> 'open'

-- name: open
-- No row: another process opened it a moment ago.
INSERT INTO holdfast_incidents (id, topic, subject, severity, sentence, began_at, opened_at, jobs_max, owners_max)
VALUES (CAST(:id AS /*id*/), :topic, :subject, :severity, :sentence, CAST(:began_at AS BIGINT), CAST(:now AS BIGINT),
        CAST(:jobs AS INTEGER), CAST(:owners AS INTEGER))
ON CONFLICT DO NOTHING
RETURNING CAST(id AS TEXT) AS id

-- name: follow
UPDATE holdfast_incidents
   SET severity = :severity, sentence = :sentence, jobs_max = CAST(:jobs AS INTEGER), owners_max = CAST(:owners AS INTEGER)
 WHERE id = CAST(:id AS /*id*/) AND state = 'open' AND severity = :expected
RETURNING CAST(id AS TEXT) AS id

-- name: reopen
UPDATE holdfast_incidents
   SET state = 'open', ended_at = NULL, closed_at = NULL, summary = NULL, severity = :severity, sentence = :sentence
 WHERE id = CAST(:id AS /*id*/) AND state <> 'open'
   AND NOT EXISTS (SELECT 1 FROM holdfast_incidents AS o
                    WHERE o.state = 'open' AND o.topic = holdfast_incidents.topic
                      AND o.subject = holdfast_incidents.subject)
RETURNING CAST(id AS TEXT) AS id

-- name: over
-- Nobody needs to write about what woke nobody and was touched by nobody: it closes itself.
UPDATE holdfast_incidents
   SET ended_at = CAST(:now AS BIGINT),
       state = CASE WHEN severity = 'ticket' AND acknowledged_at IS NULL AND assignee IS NULL THEN 'closed' ELSE 'over' END,
       closed_at = CASE WHEN severity = 'ticket' AND acknowledged_at IS NULL AND assignee IS NULL
                        THEN CAST(:now AS BIGINT) END
 WHERE id = CAST(:id AS /*id*/) AND state = 'open'
RETURNING CAST(id AS TEXT) AS id, state

-- name: acknowledge
UPDATE holdfast_incidents
   SET acknowledged_at = CAST(:now AS BIGINT), acknowledged_by = :actor, assignee = COALESCE(assignee, :actor)
 WHERE id = CAST(:id AS /*id*/) AND state <> 'closed' AND acknowledged_at IS NULL
RETURNING CAST(id AS TEXT) AS id

-- name: assign
UPDATE holdfast_incidents SET assignee = :assignee WHERE id = CAST(:id AS /*id*/) AND state <> 'closed'
RETURNING CAST(id AS TEXT) AS id

-- name: close
UPDATE holdfast_incidents SET state = 'closed', closed_at = CAST(:now AS BIGINT), summary = :summary
 WHERE id = CAST(:id AS /*id*/) AND state = 'over'
RETURNING CAST(id AS TEXT) AS id

-- name: show
SELECT CAST(id AS TEXT) AS id, topic, subject, severity, state, sentence, began_at, opened_at, ended_at, closed_at,
       acknowledged_at, acknowledged_by, assignee, summary, jobs_max, owners_max
  FROM holdfast_incidents WHERE id = CAST(:id AS /*id*/)

-- name: page
SELECT CAST(id AS TEXT) AS id, topic, subject, severity, state, sentence, began_at, opened_at, ended_at, closed_at,
       acknowledged_at, acknowledged_by, assignee, summary, jobs_max, owners_max
  FROM holdfast_incidents
 WHERE (CAST(:before AS TEXT) IS NULL OR id < CAST(:before AS /*id*/))
   AND (CAST(:state AS TEXT) IS NULL OR state = :state)
 ORDER BY holdfast_incidents.id DESC LIMIT :limit

-- name: join_held
-- The first jobs in line for a provider; those that are known already stay as they are.
INSERT INTO holdfast_incident_jobs (incident_id, job_id, role, at)
SELECT CAST(:incident_id AS /*id*/), j.id, 'held', CAST(:now AS BIGINT)
  FROM (SELECT id FROM holdfast_jobs
         WHERE state = 'queued' AND parked = 1 AND provider = :provider AND updated_at >= :floor
         ORDER BY updated_at LIMIT :limit) AS j
 WHERE TRUE
ON CONFLICT (incident_id, job_id) DO NOTHING

-- name: join_dead
-- Letters of the time of an incident: of its provider, of its category, of what many jobs died of, of jobs that it held;
-- and, of its queue, those that came too late. Each look goes on where the last one stopped, or from a floor on, below which nobody has died since.
INSERT INTO holdfast_incident_jobs (incident_id, job_id, role, letter_id, at)
SELECT CAST(:incident_id AS /*id*/), d.job_id,
       CASE WHEN d.failure_reason IN ('deadline', 'no_time') THEN 'late' ELSE 'dead' END, d.id, d.last_failure_at
  FROM holdfast_dead_letters AS d
 WHERE d.last_failure_at >= CAST(:floor AS BIGINT)
   AND d.last_failure_at >= COALESCE((SELECT MAX(m.at) FROM holdfast_incident_jobs AS m
                                       WHERE m.incident_id = CAST(:incident_id AS /*id*/) AND m.letter_id IS NOT NULL),
                                     CAST(:since AS BIGINT))
   AND (d.provider = CAST(:provider AS TEXT) OR (d.category = CAST(:category AS TEXT) AND d.failure_reason <> 'deadline')
        OR d.kind || '/' || d.stage || '/' || d.error_class = CAST(:died_of AS TEXT)
        OR d.job_id IN (SELECT h.job_id FROM holdfast_incident_jobs AS h
                         WHERE h.incident_id = CAST(:incident_id AS /*id*/))
        OR (d.failure_reason IN ('deadline', 'no_time')
            AND EXISTS (SELECT 1 FROM holdfast_jobs AS j WHERE j.id = d.job_id AND j.queue = CAST(:queue AS TEXT))))
 ORDER BY d.last_failure_at LIMIT :limit
ON CONFLICT (incident_id, job_id) DO UPDATE
   SET role = excluded.role, letter_id = excluded.letter_id, at = excluded.at
 WHERE holdfast_incident_jobs.letter_id IS NULL OR holdfast_incident_jobs.at < excluded.at
RETURNING role

-- name: hit
-- How many jobs, of how many owners, an incident hit, by what became of them.
SELECT m.role, COUNT(*) AS jobs, COUNT(DISTINCT j.owner) AS owners, MIN(m.at) AS first_at, MAX(m.at) AS last_at
  FROM holdfast_incident_jobs AS m LEFT JOIN holdfast_jobs AS j ON j.id = m.job_id
 WHERE m.incident_id = CAST(:id AS /*id*/) GROUP BY m.role ORDER BY m.role

-- name: jobs_hit
SELECT CAST(m.job_id AS TEXT) AS job_id, m.role, CAST(m.letter_id AS TEXT) AS letter_id, m.at, j.kind, j.stage, j.state,
       j.owner, d.error_class, d.state AS letter_state
  FROM holdfast_incident_jobs AS m
  LEFT JOIN holdfast_jobs AS j ON j.id = m.job_id
  LEFT JOIN holdfast_dead_letters AS d ON d.id = m.letter_id
 WHERE m.incident_id = CAST(:id AS /*id*/) ORDER BY m.role, m.at, m.job_id LIMIT :limit

-- name: letters_by_minute
SELECT m.at / 60000 AS minute, m.role, d.error_class, COUNT(*) AS jobs
  FROM holdfast_incident_jobs AS m LEFT JOIN holdfast_dead_letters AS d ON d.id = m.letter_id
 WHERE m.incident_id = CAST(:id AS /*id*/) AND m.letter_id IS NOT NULL
 GROUP BY m.at / 60000, m.role, d.error_class ORDER BY 1, 2, 3 LIMIT :limit

-- name: acts_between
-- What people did to the thing that an incident is about.
SELECT at, actor, action, subject, data FROM holdfast_audit
 WHERE subject = :subject AND at >= :since AND at < :until ORDER BY seq LIMIT :limit

-- name: held_for
-- Who waits for a provider: as many as `limit` are counted.
SELECT COUNT(*) AS jobs, COUNT(DISTINCT owner) AS owners, MIN(deadline_at) AS late_at, MIN(updated_at) AS first
  FROM (SELECT owner, deadline_at, updated_at FROM holdfast_jobs
         WHERE state = 'queued' AND parked = 1 AND provider = :provider AND updated_at >= :floor
         ORDER BY updated_at LIMIT :limit) AS held

-- name: due_in
-- Who waits in a queue: as many as `limit` are counted, the most urgent first. Each priority from its floor on.
SELECT COUNT(*) AS jobs, COUNT(DISTINCT owner) AS owners, MIN(deadline_at) AS late_at
  FROM (SELECT owner, deadline_at FROM (
        SELECT owner, deadline_at FROM (
          SELECT owner, deadline_at FROM holdfast_jobs
           WHERE state = 'queued' AND parked = 0 AND is_due = 1 AND queue = :queue AND priority = 0 AND created_at >= :urgent_since
           ORDER BY created_at LIMIT :limit) AS p0
         UNION ALL
        SELECT owner, deadline_at FROM (
          SELECT owner, deadline_at FROM holdfast_jobs
           WHERE state = 'queued' AND parked = 0 AND is_due = 1 AND queue = :queue AND priority = 1 AND created_at >= :high_since
           ORDER BY created_at LIMIT :limit) AS p1
         UNION ALL
        SELECT owner, deadline_at FROM (
          SELECT owner, deadline_at FROM holdfast_jobs
           WHERE state = 'queued' AND parked = 0 AND is_due = 1 AND queue = :queue AND priority = 2 AND created_at >= :normal_since
           ORDER BY created_at LIMIT :limit) AS p2
         UNION ALL
        SELECT owner, deadline_at FROM (
          SELECT owner, deadline_at FROM holdfast_jobs
           WHERE state = 'queued' AND parked = 0 AND is_due = 1 AND queue = :queue AND priority = 3 AND created_at >= :low_since
           ORDER BY created_at LIMIT :limit) AS p3) AS due
         LIMIT :limit) AS head

-- name: last_answer
-- How a provider failed last, in an outage: among the newest calls, which the primary key finds.
SELECT c.status, c.error_class
  FROM (SELECT id, provider, started_at, outcome, status, error_class FROM holdfast_calls
         ORDER BY id DESC LIMIT :calls_max) AS c
 WHERE c.provider = :provider AND c.started_at >= :since AND c.outcome <> 'ok' ORDER BY c.id DESC LIMIT 1

-- name: forget_jobs
DELETE FROM holdfast_incident_jobs WHERE incident_id IN (
  SELECT id FROM holdfast_incidents WHERE state = 'closed' AND ended_at < :before ORDER BY ended_at LIMIT :limit)

-- name: forget
DELETE FROM holdfast_incidents WHERE id IN (
  SELECT id FROM holdfast_incidents WHERE state = 'closed' AND ended_at < :before ORDER BY ended_at LIMIT :limit)
RETURNING CAST(id AS TEXT) AS id

-- name: begun_between
SELECT CAST(id AS TEXT) AS id, began_at, sentence FROM holdfast_incidents
 WHERE began_at >= CAST(:since AS BIGINT) AND began_at < CAST(:until AS BIGINT) ORDER BY began_at DESC LIMIT :limit
