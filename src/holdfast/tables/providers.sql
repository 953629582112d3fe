-- name: ensure
INSERT INTO holdfast_breakers (name, updated_at) VALUES (:name, CAST(:now AS BIGINT))
ON CONFLICT (name) DO NOTHING

-- name: read
SELECT name, gate, state, not_before, tokens, tokens_at, recent, places FROM holdfast_breakers
 WHERE name IN (SELECT e.key FROM json_each(:names) AS e)

-- name: read_with_lease
-- The provider's row, if it has one, and whether the attempt that wants to call still holds its job's lease.
SELECT b.name, b.gate, b.state, b.not_before, b.tokens, b.tokens_at, b.recent, b.places,
       (SELECT COUNT(*) FROM holdfast_jobs AS j
         WHERE j.id = CAST(:job_id AS /*id*/) AND j.attempt = CAST(:attempt AS BIGINT)
           AND CASE j.state WHEN 'processing' THEN TRUE ELSE FALSE END) AS held
  FROM (SELECT CAST(:name AS TEXT) AS name) AS q LEFT JOIN holdfast_breakers AS b ON b.name = q.name

-- name: lock
SELECT name, gate, state, not_before, tokens, tokens_at, recent, places, ramp, ramp_at FROM holdfast_breakers
 WHERE name = :name /*for_update*/

-- name: swap
-- Under the row's lock: the whole state at once.
UPDATE holdfast_breakers SET gate = :gate, state = :state, updated_at = CAST(:now AS BIGINT) WHERE name = :name

-- name: set_not_before
UPDATE holdfast_breakers SET not_before = CAST(:not_before AS BIGINT)
 WHERE name = :name AND (not_before IS NULL OR not_before < CAST(:not_before AS BIGINT))

-- name: lift_gate
UPDATE holdfast_breakers SET not_before = NULL WHERE name = :name

-- name: spend
UPDATE holdfast_breakers
   SET tokens = CAST(:tokens AS DOUBLE PRECISION), tokens_at = CAST(:tokens_at AS BIGINT), recent = :recent
 WHERE name = :name

-- name: set_places
UPDATE holdfast_breakers SET places = :places WHERE name = :name

-- name: set_ramp
UPDATE holdfast_breakers SET ramp = :ramp, ramp_at = CAST(:now AS BIGINT) WHERE name = :name

-- name: log
INSERT INTO holdfast_breaker_events (name, gate, at, reason) VALUES (:name, :gate, CAST(:now AS BIGINT), :reason)

-- name: history
SELECT name, gate, at, reason FROM holdfast_breaker_events
 WHERE CAST(:name AS TEXT) IS NULL OR name = :name ORDER BY seq DESC LIMIT :limit

-- name: read_every
SELECT name, gate, state, not_before, updated_at, ramp FROM holdfast_breakers ORDER BY name

-- name: names
SELECT name FROM holdfast_breakers ORDER BY name

-- name: read_watched
-- When the first job was parked that each breaker still holds back, from its floor on; `ours` if jobs of our queues wait.
SELECT b.name, b.gate,
       (SELECT j.updated_at FROM holdfast_jobs AS j
         WHERE j.state = 'queued' AND j.parked = 1 AND j.provider = b.name
           AND j.updated_at >= COALESCE(CAST(f.value->>0 AS BIGINT), 0)
         ORDER BY j.updated_at LIMIT 1) AS first,
       EXISTS (SELECT 1 FROM holdfast_jobs AS j
                WHERE j.state = 'queued' AND j.parked = 1 AND j.provider = b.name
                  AND j.updated_at >= COALESCE(CAST(f.value->>0 AS BIGINT), 0)
                  AND j.queue IN (SELECT e.key FROM json_each(:queues) AS e)) AS ours
  FROM holdfast_breakers AS b LEFT JOIN json_each(:floors) AS f ON f.key = b.name
