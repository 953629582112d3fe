-- name: ensure
INSERT INTO holdfast_breakers (name, updated_at) VALUES (:name, CAST(:now AS BIGINT))
ON CONFLICT (name) DO NOTHING

-- name: read @postgres
-- Of what is counted the newest row stands. It is looked for from that end of the index: those before it may lie there as a
-- held snapshot left them.
SELECT b.name, b.gate, b.state, b.not_before, u.state AS counted, COALESCE(u.tokens, b.tokens) AS tokens,
       COALESCE(u.tokens_at, b.tokens_at) AS tokens_at, COALESCE(u.recent, b.recent) AS recent,
       COALESCE(u.places, b.places) AS places
  FROM json_each(:names) AS e
 CROSS JOIN LATERAL (SELECT n.* FROM holdfast_breakers AS n WHERE n.name >= e.key AND n.name <= e.key
                      ORDER BY n.name DESC LIMIT 1) AS b
  LEFT JOIN LATERAL (SELECT n.state, n.tokens, n.tokens_at, n.recent, n.places FROM holdfast_provider_use AS n
                      WHERE n.name = b.name ORDER BY n.seq DESC LIMIT 1) AS u ON TRUE

-- name: read @sqlite
SELECT b.name, b.gate, b.state, b.not_before, u.state AS counted, COALESCE(u.tokens, b.tokens) AS tokens,
       COALESCE(u.tokens_at, b.tokens_at) AS tokens_at, COALESCE(u.recent, b.recent) AS recent,
       COALESCE(u.places, b.places) AS places
  FROM holdfast_breakers AS b
  LEFT JOIN holdfast_provider_use AS u ON u.name = b.name
   AND u.seq = (SELECT n.seq FROM holdfast_provider_use AS n WHERE n.name = b.name ORDER BY n.seq DESC LIMIT 1)
 WHERE b.name IN (SELECT e.key FROM json_each(:names) AS e)

-- name: read_with_lease @postgres
-- The provider's row, if it has one, and whether the attempt that wants to call still holds its job's lease.
SELECT b.name, b.gate, b.state, b.not_before, u.state AS counted, COALESCE(u.tokens, b.tokens) AS tokens,
       COALESCE(u.tokens_at, b.tokens_at) AS tokens_at, COALESCE(u.recent, b.recent) AS recent,
       COALESCE(u.places, b.places) AS places,
       (SELECT COUNT(*) FROM holdfast_jobs AS j
         WHERE j.id = CAST(:job_id AS /*id*/) AND j.attempt = CAST(:attempt AS BIGINT)
           AND CASE j.state WHEN 'processing' THEN TRUE ELSE FALSE END) AS held
  FROM (SELECT CAST(:name AS TEXT) AS name) AS q
  LEFT JOIN LATERAL (SELECT n.* FROM holdfast_breakers AS n WHERE n.name >= q.name AND n.name <= q.name
                      ORDER BY n.name DESC LIMIT 1) AS b ON TRUE
  LEFT JOIN LATERAL (SELECT n.state, n.tokens, n.tokens_at, n.recent, n.places FROM holdfast_provider_use AS n
                      WHERE n.name = b.name ORDER BY n.seq DESC LIMIT 1) AS u ON TRUE

-- name: read_with_lease @sqlite
SELECT b.name, b.gate, b.state, b.not_before, u.state AS counted, COALESCE(u.tokens, b.tokens) AS tokens,
       COALESCE(u.tokens_at, b.tokens_at) AS tokens_at, COALESCE(u.recent, b.recent) AS recent,
       COALESCE(u.places, b.places) AS places,
       (SELECT COUNT(*) FROM holdfast_jobs AS j
         WHERE j.id = CAST(:job_id AS /*id*/) AND j.attempt = CAST(:attempt AS BIGINT)
           AND CASE j.state WHEN 'processing' THEN TRUE ELSE FALSE END) AS held
  FROM (SELECT CAST(:name AS TEXT) AS name) AS q LEFT JOIN holdfast_breakers AS b ON b.name = q.name
  LEFT JOIN holdfast_provider_use AS u ON u.name = b.name
   AND u.seq = (SELECT n.seq FROM holdfast_provider_use AS n WHERE n.name = b.name ORDER BY n.seq DESC LIMIT 1)

-- name: lock
SELECT name, gate, state, not_before FROM holdfast_breakers
 WHERE name >= :name AND name <= :name ORDER BY name DESC LIMIT 1 /*for_update*/

-- name: used
-- After the lock, in a statement of its own, so that it sees what the one before has written.
SELECT state AS counted, tokens, tokens_at, recent, places, ramp, ramp_at FROM holdfast_provider_use
 WHERE name = :name ORDER BY seq DESC LIMIT 1

-- name: begin_use
-- Under the row's lock, with what code of before has counted.
INSERT INTO holdfast_provider_use (name, seq, state, tokens, tokens_at, recent, places, ramp, ramp_at)
SELECT name, 0, state, tokens, tokens_at, recent, places, ramp, ramp_at FROM holdfast_breakers WHERE name = :name

-- name: swap
-- Under the row's lock: the whole state at once.
UPDATE holdfast_breakers SET gate = :gate, state = :state, updated_at = CAST(:now AS BIGINT)
 WHERE /*newest holdfast_breakers :name*/

-- name: count
-- Under the row's lock, as all that changes what is counted: a breaker that is closed, and stays so.
UPDATE holdfast_provider_use SET seq = seq + 1, state = :state
 WHERE name = :name AND seq = (SELECT n.seq FROM holdfast_provider_use AS n WHERE n.name = :name
                                ORDER BY n.seq DESC LIMIT 1)

-- name: set_not_before
-- Under the row's lock.
UPDATE holdfast_breakers SET not_before = CAST(:not_before AS BIGINT)
 WHERE /*newest holdfast_breakers :name*/ AND (not_before IS NULL OR not_before < CAST(:not_before AS BIGINT))

-- name: lift_gate
UPDATE holdfast_breakers SET not_before = NULL WHERE /*newest holdfast_breakers :name*/

-- name: spend
UPDATE holdfast_provider_use
   SET seq = seq + 1, tokens = CAST(:tokens AS DOUBLE PRECISION), tokens_at = CAST(:tokens_at AS BIGINT), recent = :recent
 WHERE name = :name AND seq = (SELECT n.seq FROM holdfast_provider_use AS n WHERE n.name = :name
                                ORDER BY n.seq DESC LIMIT 1)

-- name: set_places
UPDATE holdfast_provider_use SET seq = seq + 1, places = :places
 WHERE name = :name AND seq = (SELECT n.seq FROM holdfast_provider_use AS n WHERE n.name = :name
                                ORDER BY n.seq DESC LIMIT 1)

-- name: set_ramp
UPDATE holdfast_provider_use SET seq = seq + 1, ramp = :ramp, ramp_at = CAST(:now AS BIGINT)
 WHERE name = :name AND seq = (SELECT n.seq FROM holdfast_provider_use AS n WHERE n.name = :name
                                ORDER BY n.seq DESC LIMIT 1)

-- name: log
INSERT INTO holdfast_breaker_events (name, gate, at, reason) VALUES (:name, :gate, CAST(:now AS BIGINT), :reason)

-- name: history
SELECT name, gate, at, reason FROM holdfast_breaker_events
 WHERE CAST(:name AS TEXT) IS NULL OR name = :name ORDER BY seq DESC LIMIT :limit

-- name: read_every
SELECT b.name, b.gate, b.state, b.not_before, b.updated_at,
       (SELECT n.state FROM holdfast_provider_use AS n WHERE n.name = b.name ORDER BY n.seq DESC LIMIT 1) AS counted
  FROM holdfast_breakers_now AS b ORDER BY b.name

-- name: names
SELECT name FROM holdfast_breakers_now ORDER BY name

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
  FROM holdfast_breakers_now AS b LEFT JOIN json_each(:floors) AS f ON f.key = b.name
