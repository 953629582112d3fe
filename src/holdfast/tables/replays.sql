-- name: begin
-- No row: one of this group has not ended.
INSERT INTO holdfast_replays (id, fingerprint, kind, stage, error_class, actor, cause, evidence, changes, is_full,
                              per_minute, next_at, created_at)
VALUES (CAST(:id AS /*id*/), :fingerprint, :kind, :stage, :error_class, :actor, :cause, CAST(:evidence AS TEXT),
        CAST(:changes AS TEXT), :is_full, CAST(:per_minute AS DOUBLE PRECISION), CAST(:now AS BIGINT),
        CAST(:now AS BIGINT))
ON CONFLICT (fingerprint) WHERE state IN ('running', 'paused') DO NOTHING
RETURNING CAST(id AS TEXT) AS id

-- name: enrol
-- The letters of a group that a replay may still take, the oldest first; with `is_chosen`, only those in the batch.
INSERT INTO holdfast_replay_letters (replay_id, letter_id, job_id, deaths)
SELECT CAST(:id AS /*id*/), d.id, d.job_id, d.deaths FROM holdfast_dead_letters AS d
 WHERE d.fingerprint = :fingerprint AND d.state IN ('open', 'escalated', 'triaged', 'remediated')
   AND (CAST(:is_chosen AS INTEGER) = 0 OR d.id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e))
 ORDER BY d.id LIMIT :limit
RETURNING CAST(letter_id AS TEXT) AS id

-- name: due @sqlite
SELECT CAST(id AS TEXT) AS id, fingerprint, kind, stage, error_class, actor, cause, evidence, changes, is_full,
       per_minute, state, next_at, created_at, ended_at
  FROM holdfast_replays WHERE state = 'running' AND next_at <= :now ORDER BY next_at LIMIT 1

-- name: due @postgres
-- From group to group backwards, so that each row is met by its newest version: it is written at every step of hours.
WITH RECURSIVE going_on AS (
  (SELECT n.id, n.fingerprint, n.kind, n.stage, n.error_class, n.actor, n.cause, n.evidence, n.changes, n.is_full, n.per_minute,
          n.state, n.next_at, n.created_at, n.ended_at
     FROM holdfast_replays AS n WHERE n.state IN ('running', 'paused') ORDER BY n.fingerprint DESC LIMIT 1)
   UNION ALL
  SELECT p.* FROM going_on AS g CROSS JOIN LATERAL (
   SELECT n.id, n.fingerprint, n.kind, n.stage, n.error_class, n.actor, n.cause, n.evidence, n.changes, n.is_full, n.per_minute,
          n.state, n.next_at, n.created_at, n.ended_at
     FROM holdfast_replays AS n WHERE n.state IN ('running', 'paused') AND n.fingerprint < g.fingerprint
    ORDER BY n.fingerprint DESC LIMIT 1) AS p)
SELECT CAST(id AS TEXT) AS id, fingerprint, kind, stage, error_class, actor, cause, evidence, changes, is_full,
       per_minute, state, next_at, created_at, ended_at
  FROM going_on WHERE state = 'running' AND next_at <= :now ORDER BY next_at LIMIT 1

-- name: upcoming
SELECT CAST(letter_id AS TEXT) AS id, deaths FROM holdfast_replay_letters
 WHERE replay_id = CAST(:id AS /*id*/) AND done_at IS NULL AND letter_id >= CAST(:first AS /*id*/)
 ORDER BY holdfast_replay_letters.letter_id LIMIT :limit

-- name: mark
UPDATE holdfast_replay_letters SET done_at = CAST(:now AS BIGINT), detail = CAST(:detail AS TEXT)
 WHERE replay_id = CAST(:id AS /*id*/) AND letter_id = CAST(:letter_id AS /*id*/) AND done_at IS NULL

-- name: advance
-- Done when no letter is left from the first on that was not done; a pause or a stop that came meanwhile stands.
UPDATE holdfast_replays
   SET next_at = CAST(:next_at AS BIGINT),
       state = CASE WHEN EXISTS (SELECT 1 FROM holdfast_replay_letters AS l
                                  WHERE l.replay_id = holdfast_replays.id AND l.done_at IS NULL
                                    AND l.letter_id >= CAST(:first AS /*id*/))
                    THEN state ELSE 'done' END,
       ended_at = CASE WHEN EXISTS (SELECT 1 FROM holdfast_replay_letters AS l
                                     WHERE l.replay_id = holdfast_replays.id AND l.done_at IS NULL
                                       AND l.letter_id >= CAST(:first AS /*id*/))
                       THEN ended_at ELSE CAST(:now AS BIGINT) END
 WHERE id = CAST(:id AS /*id*/) AND /*newest holdfast_replays.id :id*/ AND state = 'running'

-- name: pause
UPDATE holdfast_replays SET state = 'paused' WHERE id = CAST(:id AS /*id*/) AND state = 'running'
RETURNING CAST(id AS TEXT) AS id

-- name: resume
UPDATE holdfast_replays SET state = 'running', next_at = CAST(:now AS BIGINT)
 WHERE id = CAST(:id AS /*id*/) AND state = 'paused'
RETURNING CAST(id AS TEXT) AS id

-- name: stop
UPDATE holdfast_replays SET state = 'stopped', ended_at = CAST(:now AS BIGINT)
 WHERE id = CAST(:id AS /*id*/) AND state IN ('running', 'paused')
RETURNING CAST(id AS TEXT) AS id

-- name: show
SELECT CAST(id AS TEXT) AS id, fingerprint, kind, stage, error_class, actor, cause, evidence, changes, is_full,
       per_minute, state, next_at, created_at, ended_at
  FROM holdfast_replays WHERE id >= CAST(:id AS /*id*/) AND id <= CAST(:id AS /*id*/) ORDER BY holdfast_replays.id DESC LIMIT 1

-- name: page
SELECT CAST(id AS TEXT) AS id, fingerprint, kind, stage, error_class, actor, cause, evidence, changes, is_full,
       per_minute, state, next_at, created_at, ended_at
  FROM holdfast_replays
 WHERE (CAST(:before AS TEXT) IS NULL OR id < CAST(:before AS /*id*/))
   AND (CAST(:fingerprint AS TEXT) IS NULL OR fingerprint = :fingerprint)
 ORDER BY holdfast_replays.id DESC LIMIT :limit

-- name: progress
-- What became of the letters: those not taken yet `waiting`, those that could not be `refused`, the others as their jobs
-- are now.
SELECT CASE WHEN l.done_at IS NULL THEN 'waiting' WHEN l.detail IS NOT NULL THEN 'refused'
            WHEN j.state IS NULL THEN 'gone' ELSE j.state END AS outcome, COUNT(*) AS letters
  FROM holdfast_replay_letters AS l LEFT JOIN holdfast_jobs AS j ON j.id = l.job_id
 WHERE l.replay_id = CAST(:id AS /*id*/) GROUP BY 1 ORDER BY 1

-- name: troubles
-- The first letters that were refused, or whose jobs are dead again.
SELECT CAST(l.letter_id AS TEXT) AS letter_id, CAST(l.job_id AS TEXT) AS job_id,
       COALESCE(l.detail, d.last_error) AS detail
  FROM holdfast_replay_letters AS l
  LEFT JOIN holdfast_jobs AS j ON j.id = l.job_id
  LEFT JOIN holdfast_dead_letters AS d ON d.id = l.letter_id
 WHERE l.replay_id = CAST(:id AS /*id*/) AND l.done_at IS NOT NULL AND (l.detail IS NOT NULL OR j.state = 'dead')
 ORDER BY l.letter_id LIMIT :limit

-- name: effects_of
-- What the jobs of a group have sent, by status.
SELECT f.status, COUNT(*) AS effects
  FROM holdfast_dead_letters AS d JOIN holdfast_effects AS f ON f.job_id = d.job_id
 WHERE d.fingerprint = :fingerprint AND d.state IN ('open', 'escalated', 'triaged', 'remediated')
   AND (CAST(:is_chosen AS INTEGER) = 0 OR d.id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e))
 GROUP BY f.status

-- name: costs_of
SELECT c.stage, CAST(SUM(c.cost_micros) AS BIGINT) AS cost_micros
  FROM holdfast_dead_letters AS d JOIN holdfast_every_call AS c ON c.job_id = d.job_id
 WHERE d.fingerprint = :fingerprint AND d.state IN ('open', 'escalated', 'triaged', 'remediated')
   AND (CAST(:is_chosen AS INTEGER) = 0 OR d.id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e))
 GROUP BY c.stage

-- name: results_of
SELECT r.stage, COUNT(*) AS jobs
  FROM holdfast_dead_letters AS d JOIN holdfast_results AS r ON r.job_id = d.job_id AND r.is_late = 0
 WHERE d.fingerprint = :fingerprint AND d.state IN ('open', 'escalated', 'triaged', 'remediated')
   AND (CAST(:is_chosen AS INTEGER) = 0 OR d.id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e))
 GROUP BY r.stage ORDER BY r.stage

-- name: owners_of
SELECT COUNT(*) AS letters, COUNT(DISTINCT j.owner) AS owners, CAST(MIN(CAST(d.id AS TEXT)) AS TEXT) AS first
  FROM holdfast_dead_letters AS d LEFT JOIN holdfast_jobs AS j ON j.id = d.job_id
 WHERE d.fingerprint = :fingerprint AND d.state IN ('open', 'escalated', 'triaged', 'remediated')
   AND (CAST(:is_chosen AS INTEGER) = 0 OR d.id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e))

-- name: letters_of
SELECT CAST(d.id AS TEXT) AS id FROM holdfast_dead_letters AS d
 WHERE d.fingerprint = :fingerprint AND d.state IN ('open', 'escalated', 'triaged', 'remediated')
   AND (CAST(:is_chosen AS INTEGER) = 0 OR d.id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e))
 ORDER BY d.id LIMIT :limit

-- name: prune_letters
DELETE FROM holdfast_replay_letters
 WHERE replay_id IN (SELECT id FROM holdfast_replays WHERE ended_at IS NOT NULL AND ended_at < :before)

-- name: prune
DELETE FROM holdfast_replays WHERE ended_at IS NOT NULL AND ended_at < :before

-- name: ids
SELECT CAST(id AS TEXT) AS id FROM holdfast_replays
 WHERE id >= CAST(:lowest AS /*id*/) AND id <= CAST(:highest AS /*id*/) ORDER BY holdfast_replays.id LIMIT 2
