-- name: jobs_matching
-- The newest first, along the primary key (`ORDER BY id` alone would sort by the text that is given back), or by the index
-- of an owner, a state of the few or an error. A key is unique within its kind: the kinds are leapt over one by one.
-- An input has no index: `from_id` bounds whose is looked into.
WITH RECURSIVE kinds (kind) AS ( -- if key
  SELECT MIN(k.kind) FROM holdfast_jobs AS k WHERE k.job_key IS NOT NULL -- if key
   UNION ALL -- if key
  SELECT (SELECT MIN(k.kind) FROM holdfast_jobs AS k WHERE k.job_key IS NOT NULL AND k.kind > n.kind) -- if key
    FROM kinds AS n WHERE n.kind IS NOT NULL) -- if key
SELECT /*JobLine in j*/
  FROM holdfast_jobs AS j
 WHERE j.id >= CAST(:from_id AS /*id*/) AND j.id <= CAST(:to_id AS /*id*/)
   AND j.id < CAST(:before AS /*id*/) -- if before
   AND j.state = :state -- if state
   AND j.parked = CAST(:held AS INTEGER) -- if held
   AND j.kind IN (SELECT n.kind FROM kinds AS n) -- if key
   AND j.kind = :kind -- if kind
   AND LOWER(j.kind) LIKE :kind_like ESCAPE '!' -- if kind_like
   AND j.queue = :queue -- if queue
   AND LOWER(j.queue) LIKE :queue_like ESCAPE '!' -- if queue_like
   AND j.stage = :stage -- if stage
   AND LOWER(j.stage) LIKE :stage_like ESCAPE '!' -- if stage_like
   AND j.provider = :provider -- if provider
   AND LOWER(j.provider) LIKE :provider_like ESCAPE '!' -- if provider_like
   AND j.owner = :owner -- if owner
   AND LOWER(j.owner) LIKE :owner_like ESCAPE '!' -- if owner_like
   AND j.job_key = :key -- if key
   AND LOWER(j.job_key) LIKE :key_like ESCAPE '!' -- if key_like
   AND j.error IS NOT NULL AND LOWER(j.error) LIKE :error_like ESCAPE '!' -- if error_like
   AND j.created_at >= CAST(:created_from AS BIGINT) -- if created_from
   AND j.created_at <= CAST(:created_to AS BIGINT) -- if created_to
   AND NOT EXISTS (SELECT 1 FROM json_each(:inputs) AS e -- if inputs
                    WHERE LOWER(j.payload) NOT LIKE e.value->>0 ESCAPE '!' -- if inputs
                      AND LOWER(j.payload) NOT LIKE e.value->>1 ESCAPE '!' -- if inputs
                      AND LOWER(j.payload) NOT LIKE e.value->>2 ESCAPE '!') -- if inputs
 ORDER BY j.id DESC LIMIT :limit

-- name: oldest_searched
-- From which job on inputs are looked into.
SELECT CAST(j.id AS TEXT) AS id FROM holdfast_jobs AS j ORDER BY j.id DESC LIMIT 1 OFFSET :payloads_max

-- name: jobs_by_term
-- The newest first, along the primary key of the terms; all else is looked at in the jobs that have the term.
SELECT /*JobLine in j*/
  FROM holdfast_search AS s JOIN holdfast_jobs AS j ON j.id = s.job_id
 WHERE s.field = :field AND s.value = :value
   AND s.job_id >= CAST(:from_id AS /*id*/) AND s.job_id <= CAST(:to_id AS /*id*/)
   AND s.job_id < CAST(:before AS /*id*/) -- if before
   AND j.state = :state -- if state
   AND j.parked = CAST(:held AS INTEGER) -- if held
   AND j.kind = :kind -- if kind
   AND LOWER(j.kind) LIKE :kind_like ESCAPE '!' -- if kind_like
   AND j.queue = :queue -- if queue
   AND LOWER(j.queue) LIKE :queue_like ESCAPE '!' -- if queue_like
   AND j.stage = :stage -- if stage
   AND LOWER(j.stage) LIKE :stage_like ESCAPE '!' -- if stage_like
   AND j.provider = :provider -- if provider
   AND LOWER(j.provider) LIKE :provider_like ESCAPE '!' -- if provider_like
   AND j.owner = :owner -- if owner
   AND LOWER(j.owner) LIKE :owner_like ESCAPE '!' -- if owner_like
   AND j.job_key = :key -- if key
   AND LOWER(j.job_key) LIKE :key_like ESCAPE '!' -- if key_like
   AND j.error IS NOT NULL AND LOWER(j.error) LIKE :error_like ESCAPE '!' -- if error_like
   AND j.created_at >= CAST(:created_from AS BIGINT) -- if created_from
   AND j.created_at <= CAST(:created_to AS BIGINT) -- if created_to
   AND NOT EXISTS (SELECT 1 FROM json_each(:inputs) AS e -- if inputs
                    WHERE LOWER(j.payload) NOT LIKE e.value->>0 ESCAPE '!' -- if inputs
                      AND LOWER(j.payload) NOT LIKE e.value->>1 ESCAPE '!' -- if inputs
                      AND LOWER(j.payload) NOT LIKE e.value->>2 ESCAPE '!') -- if inputs
 ORDER BY s.job_id DESC LIMIT :limit

-- name: put
INSERT INTO holdfast_search (field, value, job_id)
SELECT e.value->>0, e.value->>1, CAST(e.value->>2 AS /*id*/) FROM json_each(:batch) AS e WHERE TRUE
ON CONFLICT (field, value, job_id) DO NOTHING

-- name: forget
DELETE FROM holdfast_search WHERE job_id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e)
