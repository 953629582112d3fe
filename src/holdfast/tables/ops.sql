-- name: case_of_job
SELECT CAST(id AS TEXT) AS id, state, stage, error_class, failure_reason, attempts_made FROM holdfast_dead_letters
 WHERE job_id = CAST(:job_id AS /*id*/)

-- name: jobs_found
-- By any id that a person may hold in hand: of the job, its key, its callback, its dead letter, its effects; and, among
-- the newest jobs only (neither has an index), its trace and any id that its input names. Each by its own index: the
-- kinds are leapt over one by one, since a key is unique within its kind.
WITH RECURSIVE kinds (kind) AS (
  SELECT MIN(j.kind) FROM holdfast_jobs AS j WHERE j.job_key IS NOT NULL
   UNION ALL
  SELECT (SELECT MIN(j.kind) FROM holdfast_jobs AS j WHERE j.job_key IS NOT NULL AND j.kind > k.kind)
    FROM kinds AS k WHERE k.kind IS NOT NULL
), newest AS (
  SELECT j.id, j.trace, j.payload FROM holdfast_jobs AS j ORDER BY j.id DESC LIMIT :payloads_max
), wanted (id) AS (
  SELECT j.id FROM holdfast_jobs AS j WHERE j.id = CAST(:as_id AS /*id*/) OR j.wait_key = :wanted
   UNION SELECT j.id FROM kinds AS k JOIN holdfast_jobs AS j ON j.kind = k.kind AND j.job_key = :wanted
   UNION SELECT d.job_id FROM holdfast_dead_letters AS d WHERE d.id = CAST(:as_id AS /*id*/) OR d.request_id = :wanted
   UNION SELECT f.job_id FROM holdfast_effects AS f WHERE f.key = :wanted
   UNION SELECT n.id FROM newest AS n WHERE n.trace = :wanted OR n.payload LIKE :quoted ESCAPE '!'
)
SELECT /*JobLine in j*/
  FROM (SELECT w.id FROM wanted AS w
         WHERE CAST(:before AS TEXT) IS NULL OR w.id < CAST(:before AS /*id*/)
         ORDER BY w.id DESC LIMIT :limit) AS first
  JOIN holdfast_jobs AS j ON j.id = first.id
 ORDER BY j.id DESC

-- name: jobs_of_effect
-- By what a provider has of an effect. Neither has an index: asked only where nothing else was found.
SELECT /*JobLine in j*/
  FROM holdfast_jobs AS j
 WHERE j.id IN (SELECT f.job_id FROM holdfast_effects AS f WHERE f.token = :wanted OR f.provider_id = :wanted)
   AND (CAST(:before AS TEXT) IS NULL OR j.id < CAST(:before AS /*id*/))
 ORDER BY j.id DESC LIMIT :limit

-- name: aggregate_of
-- What a message is about.
SELECT aggregate_id FROM holdfast_outbox WHERE id = CAST(:id AS /*id*/)

-- name: outbox_page
SELECT seq, CAST(id AS TEXT) AS id, aggregate_id, destination, message_type, status, created_at, available_at,
       processed_at, retry_count, error_message
  FROM holdfast_outbox
 WHERE (CAST(:before AS BIGINT) IS NULL OR seq < :before) AND (CAST(:status AS TEXT) IS NULL OR status = :status)
 ORDER BY seq DESC LIMIT :limit

-- name: effects_page
SELECT key, provider, provider_class, status, provider_id, sends, first_sent_at, last_sent_at, marked_at, error_class,
       error, kind, stage, CAST(job_id AS TEXT) AS job_id, created_at, updated_at
  FROM holdfast_effects
 WHERE (CAST(:before AS TEXT) IS NULL OR key < :before)
   AND (CAST(:status AS TEXT) IS NULL OR status = :status)
   AND (CAST(:provider AS TEXT) IS NULL OR provider = :provider)
 ORDER BY key DESC LIMIT :limit

-- name: audit_page
SELECT seq, at, actor, action, subject, data FROM holdfast_audit
 WHERE (CAST(:before AS BIGINT) IS NULL OR seq < :before)
   AND (CAST(:actor AS TEXT) IS NULL OR actor = :actor)
   AND (CAST(:subject AS TEXT) IS NULL OR subject = :subject)
   AND (CAST(:people AS INTEGER) = 0 OR actor <> 'kernel')
 ORDER BY seq DESC LIMIT :limit

-- name: gates_since
-- The changes of a breaker's gate since a time, and the last one before it, which tells what it was then.
SELECT seq, gate, at, reason FROM holdfast_breaker_events
 WHERE name = :provider AND seq >= COALESCE(
       (SELECT MAX(b.seq) FROM holdfast_breaker_events AS b
         WHERE b.name = :provider AND b.at < CAST(:since AS BIGINT)), 0)
 ORDER BY seq LIMIT :limit

-- name: mark
-- Differs whenever something has happened that an operator might be looking at.
SELECT (SELECT CAST(j.id AS TEXT) FROM holdfast_jobs AS j ORDER BY j.id DESC LIMIT 1) AS newest,
       (SELECT MAX(seq) FROM holdfast_job_events) AS events,
       (SELECT MAX(seq) FROM holdfast_audit) AS audit,
       (SELECT MAX(seq) FROM holdfast_breaker_events) AS gates,
       (SELECT MAX(seq) FROM holdfast_outbox) AS messages,
       (SELECT COUNT(*) FROM (SELECT status FROM holdfast_outbox ORDER BY seq DESC LIMIT 20) AS newest
         WHERE status = 'pending') AS pending

-- name: at_risk
-- Jobs with less than a quarter of their time left: only those whose deadline comes soon are looked at, and those that have
-- missed it and were not swept yet.
SELECT COUNT(*) AS jobs, MIN(soon.deadline_at) AS first_at
  FROM (SELECT deadline_at, created_at FROM holdfast_jobs
         WHERE deadline_at IS NOT NULL AND state IN ('queued', 'processing', 'waiting')
           AND deadline_at >= :since AND deadline_at < :until
         ORDER BY deadline_at LIMIT :limit) AS soon
 WHERE (soon.deadline_at - CAST(:now AS BIGINT)) * 4 < soon.deadline_at - soon.created_at

-- name: messages_aside
-- Messages that were set aside after their last try, as far as anybody would count them.
SELECT COUNT(*) AS messages FROM (SELECT 1 FROM holdfast_outbox WHERE status = 'failed' LIMIT :limit) AS aside

-- name: job_ids
-- The ids of jobs within a range: those that begin as a person has typed it. Two are enough to know that it is too short.
SELECT CAST(id AS TEXT) AS id FROM holdfast_jobs
 WHERE id >= CAST(:lowest AS /*id*/) AND id <= CAST(:highest AS /*id*/) ORDER BY holdfast_jobs.id LIMIT 2

-- name: states_of
-- How many of these jobs are in each state, and how many of them wait for a provider.
SELECT state, COUNT(*) AS jobs, SUM(parked) AS held FROM holdfast_jobs
 WHERE id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e) GROUP BY state

-- name: letter_ids
SELECT CAST(id AS TEXT) AS id FROM holdfast_dead_letters
 WHERE id >= CAST(:lowest AS /*id*/) AND id <= CAST(:highest AS /*id*/) ORDER BY holdfast_dead_letters.id LIMIT 2

-- name: incident_ids
SELECT CAST(id AS TEXT) AS id FROM holdfast_incidents
 WHERE id >= CAST(:lowest AS /*id*/) AND id <= CAST(:highest AS /*id*/) ORDER BY holdfast_incidents.id LIMIT 2

-- name: gate_changes
-- The newest changes of every breaker's gate within a time.
SELECT c.name, c.gate, c.at, c.reason
  FROM (SELECT seq, name, gate, at, reason FROM holdfast_breaker_events ORDER BY seq DESC LIMIT :limit) AS c
 WHERE c.at >= CAST(:since AS BIGINT) AND c.at < CAST(:until AS BIGINT) ORDER BY c.seq
