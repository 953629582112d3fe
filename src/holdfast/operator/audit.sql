-- name: page
-- Jobs in the order of their ids, which is the order of their creation.
SELECT CAST(id AS TEXT) AS id, kind, stage, state, parked, provider, attempt, failures, crashes, epoch, run_at,
       deadline_at, finished_at, lease_until
  FROM holdfast_jobs WHERE id > CAST(:after AS /*id*/) ORDER BY holdfast_jobs.id LIMIT :limit

-- name: some
SELECT CAST(id AS TEXT) AS id, kind, stage, state, parked, provider, attempt, failures, crashes, epoch, run_at,
       deadline_at, finished_at, lease_until
  FROM holdfast_jobs WHERE id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e) ORDER BY holdfast_jobs.id

-- name: events @postgres
-- Job by job: joined to the ids, the view would be read as a whole (6 s for a page beside 60,000 jobs). The OFFSET keeps
-- the planner from making a join of it.
SELECT CAST(story.job_id AS TEXT) AS job_id, story.attempt, story.type, story.at
  FROM json_each(:batch) AS e
 CROSS JOIN LATERAL (SELECT v.* FROM holdfast_every_event AS v WHERE v.job_id = CAST(e.key AS uuid) OFFSET 0) AS story
 ORDER BY story.job_id, story.seq, story.part

-- name: events @sqlite
-- The range is what SQLite takes into the view, so that it looks by the index.
SELECT job_id, attempt, type, at FROM holdfast_every_event
 WHERE job_id >= :lowest AND job_id <= :highest AND job_id IN (SELECT e.key FROM json_each(:batch) AS e)
 ORDER BY job_id, seq, part

-- name: effects
SELECT CAST(job_id AS TEXT) AS job_id, key, token, status, provider_id, error, updated_at FROM holdfast_effects
 WHERE job_id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e) ORDER BY holdfast_effects.job_id, key

-- name: cases
SELECT CAST(job_id AS TEXT) AS job_id, state, deaths, replays FROM holdfast_dead_letters
 WHERE job_id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e)

-- name: unread
-- Messages that no relay has published for a long time, though they were due.
SELECT CAST(id AS TEXT) AS id FROM holdfast_outbox
 WHERE status = 'pending' AND available_at < :before ORDER BY available_at LIMIT 100

-- name: orphans
-- Held back for a provider that nothing watches: no breaker row says when to let them go. Who waits for a turn or for a
-- pause to end waits for no provider.
SELECT CAST(j.id AS TEXT) AS id, j.provider FROM holdfast_jobs AS j
 WHERE j.state = 'queued' AND j.parked = 1 AND COALESCE(j.hold, '') NOT IN ('turn', 'pause')
   AND NOT EXISTS (SELECT 1 FROM holdfast_breakers AS b WHERE b.name = j.provider)
 LIMIT 100
