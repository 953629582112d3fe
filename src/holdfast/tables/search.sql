-- name: jobs_matching
-- The newest first, along the primary key (`ORDER BY id` alone would sort by the text that is given back). What is not
-- asked for is a constant to the planner, so an owner, a state of the few and an error are found by their own indexes.
-- An input has none: it is looked into only where the query asks for it, and `from_id` bounds whose.
SELECT CAST(j.id AS TEXT) AS id, j.kind, j.queue, j.stage, j.state, j.parked, j.hold, j.provider, j.priority, j.attempt,
       j.failures, j.crashes, j.epoch, j.run_at, j.created_at, j.updated_at, j.started_at, j.finished_at, j.deadline_at,
       j.lease_owner, j.lease_until, j.owner, j.job_key, j.error
  FROM holdfast_jobs AS j
 WHERE j.id >= CAST(:from_id AS /*id*/) AND j.id <= CAST(:to_id AS /*id*/)
   AND (CAST(:before AS TEXT) IS NULL OR j.id < CAST(:before AS /*id*/))
   AND (CAST(:state AS TEXT) IS NULL OR j.state = :state)
   AND (CAST(:held AS INTEGER) IS NULL OR j.parked = CAST(:held AS INTEGER))
   AND (CAST(:kind AS TEXT) IS NULL OR LOWER(j.kind) LIKE :kind ESCAPE '!')
   AND (CAST(:queue AS TEXT) IS NULL OR LOWER(j.queue) LIKE :queue ESCAPE '!')
   AND (CAST(:stage AS TEXT) IS NULL OR LOWER(j.stage) LIKE :stage ESCAPE '!')
   AND (CAST(:provider AS TEXT) IS NULL OR LOWER(j.provider) LIKE :provider ESCAPE '!')
   AND (CAST(:owner_is AS TEXT) IS NULL OR j.owner = :owner_is)
   AND (CAST(:owner AS TEXT) IS NULL OR LOWER(j.owner) LIKE :owner ESCAPE '!')
   AND (CAST(:key AS TEXT) IS NULL OR LOWER(j.job_key) LIKE :key ESCAPE '!')
   AND (CAST(:error AS TEXT) IS NULL OR (j.error IS NOT NULL AND LOWER(j.error) LIKE :error ESCAPE '!'))
   AND (CAST(:created_from AS BIGINT) IS NULL OR j.created_at >= CAST(:created_from AS BIGINT))
   AND (CAST(:created_to AS BIGINT) IS NULL OR j.created_at <= CAST(:created_to AS BIGINT))
   AND (CAST(:is_deep AS INTEGER) = 0
        OR NOT EXISTS (SELECT 1 FROM json_each(:inputs) AS e
                        WHERE LOWER(j.payload) NOT LIKE e.value->>0 ESCAPE '!'
                          AND LOWER(j.payload) NOT LIKE e.value->>1 ESCAPE '!'
                          AND LOWER(j.payload) NOT LIKE e.value->>2 ESCAPE '!'))
 ORDER BY j.id DESC LIMIT :limit

-- name: oldest_searched
-- From which job on inputs are looked into.
SELECT CAST(j.id AS TEXT) AS id FROM holdfast_jobs AS j ORDER BY j.id DESC LIMIT 1 OFFSET :payloads_max

-- name: jobs_by_term
-- The newest first, along the primary key of the terms; all else is looked at in the jobs that have the term.
SELECT CAST(j.id AS TEXT) AS id, j.kind, j.queue, j.stage, j.state, j.parked, j.hold, j.provider, j.priority, j.attempt,
       j.failures, j.crashes, j.epoch, j.run_at, j.created_at, j.updated_at, j.started_at, j.finished_at, j.deadline_at,
       j.lease_owner, j.lease_until, j.owner, j.job_key, j.error
  FROM holdfast_search AS s JOIN holdfast_jobs AS j ON j.id = s.job_id
 WHERE s.field = :field AND s.value = :value
   AND (CAST(:before AS TEXT) IS NULL OR s.job_id < CAST(:before AS /*id*/))
   AND s.job_id >= CAST(:from_id AS /*id*/) AND s.job_id <= CAST(:to_id AS /*id*/)
   AND (CAST(:state AS TEXT) IS NULL OR j.state = :state)
   AND (CAST(:held AS INTEGER) IS NULL OR j.parked = CAST(:held AS INTEGER))
   AND (CAST(:kind AS TEXT) IS NULL OR LOWER(j.kind) LIKE :kind ESCAPE '!')
   AND (CAST(:queue AS TEXT) IS NULL OR LOWER(j.queue) LIKE :queue ESCAPE '!')
   AND (CAST(:stage AS TEXT) IS NULL OR LOWER(j.stage) LIKE :stage ESCAPE '!')
   AND (CAST(:provider AS TEXT) IS NULL OR LOWER(j.provider) LIKE :provider ESCAPE '!')
   AND (CAST(:owner_is AS TEXT) IS NULL OR j.owner = :owner_is)
   AND (CAST(:owner AS TEXT) IS NULL OR LOWER(j.owner) LIKE :owner ESCAPE '!')
   AND (CAST(:key AS TEXT) IS NULL OR LOWER(j.job_key) LIKE :key ESCAPE '!')
   AND (CAST(:error AS TEXT) IS NULL OR LOWER(j.error) LIKE :error ESCAPE '!')
   AND (CAST(:created_from AS BIGINT) IS NULL OR j.created_at >= CAST(:created_from AS BIGINT))
   AND (CAST(:created_to AS BIGINT) IS NULL OR j.created_at <= CAST(:created_to AS BIGINT))
   AND NOT EXISTS (SELECT 1 FROM json_each(:inputs) AS e
                    WHERE LOWER(j.payload) NOT LIKE e.value->>0 ESCAPE '!'
                      AND LOWER(j.payload) NOT LIKE e.value->>1 ESCAPE '!'
                      AND LOWER(j.payload) NOT LIKE e.value->>2 ESCAPE '!')
 ORDER BY s.job_id DESC LIMIT :limit

-- name: put
INSERT INTO holdfast_search (field, value, job_id)
SELECT e.value->>0, e.value->>1, CAST(e.value->>2 AS /*id*/) FROM json_each(:batch) AS e WHERE TRUE
ON CONFLICT (field, value, job_id) DO NOTHING

-- name: forget
DELETE FROM holdfast_search WHERE job_id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e)
