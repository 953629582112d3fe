-- name: jobs_matching
-- The newest first, along the primary key. An input has no index: only the newest jobs' are looked into, and nobody's
-- where the query does not ask for it.
SELECT CAST(id AS TEXT) AS id, kind, queue, stage, state, parked, hold, provider, priority, attempt, failures, crashes,
       epoch, run_at, created_at, updated_at, started_at, finished_at, deadline_at, lease_owner, lease_until, owner,
       job_key, error
  FROM holdfast_jobs
 WHERE (CAST(:before AS TEXT) IS NULL OR id < CAST(:before AS /*id*/))
   AND (CAST(:from_id AS TEXT) IS NULL OR id >= CAST(:from_id AS /*id*/))
   AND (CAST(:to_id AS TEXT) IS NULL OR id <= CAST(:to_id AS /*id*/))
   AND (CAST(:state AS TEXT) IS NULL OR state = :state)
   AND (CAST(:held AS INTEGER) IS NULL OR parked = CAST(:held AS INTEGER))
   AND (CAST(:kind AS TEXT) IS NULL OR LOWER(kind) LIKE :kind ESCAPE '!')
   AND (CAST(:queue AS TEXT) IS NULL OR LOWER(queue) LIKE :queue ESCAPE '!')
   AND (CAST(:stage AS TEXT) IS NULL OR LOWER(stage) LIKE :stage ESCAPE '!')
   AND (CAST(:provider AS TEXT) IS NULL OR LOWER(provider) LIKE :provider ESCAPE '!')
   AND (CAST(:owner AS TEXT) IS NULL OR LOWER(owner) LIKE :owner ESCAPE '!')
   AND (CAST(:key AS TEXT) IS NULL OR LOWER(job_key) LIKE :key ESCAPE '!')
   AND (CAST(:error AS TEXT) IS NULL OR LOWER(error) LIKE :error ESCAPE '!')
   AND (CAST(:created_from AS BIGINT) IS NULL OR created_at >= CAST(:created_from AS BIGINT))
   AND (CAST(:created_to AS BIGINT) IS NULL OR created_at <= CAST(:created_to AS BIGINT))
   AND (CAST(:is_deep AS INTEGER) = 0
        OR (id >= COALESCE((SELECT o.id FROM holdfast_jobs AS o ORDER BY o.id DESC LIMIT 1 OFFSET :payloads_max), id)
            AND NOT EXISTS (SELECT 1 FROM json_each(:inputs) AS e
                             WHERE LOWER(payload) NOT LIKE e.value->>0 ESCAPE '!'
                               AND LOWER(payload) NOT LIKE e.value->>1 ESCAPE '!'
                               AND LOWER(payload) NOT LIKE e.value->>2 ESCAPE '!')))
 ORDER BY id DESC LIMIT :limit
