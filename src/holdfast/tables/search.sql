-- name: jobs_matching
-- In the order that is asked for. By age it walks the primary key (`ORDER BY id` alone would sort by the text that is given
-- back), or the index of an owner, a state or an error; by deadline and by failures an index of those who have one. A state
-- is written out: an index of some states serves only whom it can be proven for. A key is unique within its kind: the kinds
-- are leapt over one by one, and `IS TRUE` keeps a plan that does not know the range from walking it (2 s at a million
-- jobs, 3 ms so). A declared field is found by the primary key of the terms, and all else is looked at in the
-- jobs that have the term. An input has no index: `from_id` bounds whose is looked into.
WITH RECURSIVE kinds (kind) AS ( -- if key
  SELECT MIN(k.kind) FROM holdfast_jobs AS k WHERE k.job_key IS NOT NULL -- if key
   UNION ALL -- if key
  SELECT (SELECT MIN(k.kind) FROM holdfast_jobs AS k WHERE k.job_key IS NOT NULL AND k.kind > n.kind) -- if key
    FROM kinds AS n WHERE n.kind IS NOT NULL) -- if key
SELECT /*JobLine in j*/
  FROM holdfast_search AS s JOIN -- if field
  FROM -- if any
       holdfast_jobs AS j
    ON j.id = s.job_id AND s.field = :field AND s.value = :value -- if field
   AND s.job_id >= CAST(:from_id AS /*id*/) AND s.job_id <= CAST(:to_id AS /*id*/) -- if field
 WHERE j.id >= CAST(:from_id AS /*id*/) AND j.id <= CAST(:to_id AS /*id*/) -- if within
 WHERE (j.id >= CAST(:from_id AS /*id*/) AND j.id <= CAST(:to_id AS /*id*/)) IS TRUE -- if key
   AND j.state = 'queued' -- if queued
   AND (j.parked = 1 OR j.is_due = 0 OR (j.parked = 0 AND j.is_due = 1)) -- if queued
   AND j.state = 'processing' -- if processing
   AND j.state = 'waiting' -- if waiting
   AND j.state = 'succeeded' -- if succeeded
   AND j.state = 'dead' -- if dead
   AND j.state = 'cancelled' -- if cancelled
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
   AND j.deadline_at IS NOT NULL AND j.state IN ('queued', 'processing', 'waiting') -- if deadline
   AND j.failures > 0 -- if failures
   AND j.id < CAST(:before_id AS /*id*/) -- if before_newest
   AND j.id > CAST(:before_id AS /*id*/) -- if before_oldest
   AND j.deadline_at >= :before_value AND (j.deadline_at > :before_value OR j.id > CAST(:before_id AS /*id*/)) -- if before_deadline
   AND j.failures <= :before_value AND (j.failures < :before_value OR j.id < CAST(:before_id AS /*id*/)) -- if before_failures
 ORDER BY j.id DESC LIMIT :limit -- if newest
 ORDER BY j.id LIMIT :limit -- if oldest
 ORDER BY j.deadline_at, j.id LIMIT :limit -- if deadline
 ORDER BY j.failures DESC, j.id DESC LIMIT :limit -- if failures

-- name: oldest_searched
-- From which job on inputs are looked into.
SELECT CAST(j.id AS TEXT) AS id FROM holdfast_jobs AS j ORDER BY j.id DESC LIMIT 1 OFFSET :payloads_max

-- name: put
INSERT INTO holdfast_search (field, value, job_id)
SELECT e.value->>0, e.value->>1, CAST(e.value->>2 AS /*id*/) FROM json_each(:batch) AS e WHERE TRUE
ON CONFLICT (field, value, job_id) DO NOTHING

-- name: forget
DELETE FROM holdfast_search WHERE job_id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e)
