-- name: lanes
-- brief
-- Every lane, the most urgent first: since when the oldest due job waits for its turn, if one does; and of the queue's
-- jobs that had theirs and are not claimed yet, how many they are (at most `most` are counted, where jobs wait), and since
-- when the oldest had it (where jobs wait, and in the first lane of the queue).
-- Each is a descent of an index from a floor on. An EXISTS was a pass over all that wait while the statistics were those
-- of before a bulk: 59 ms behind 30,000 jobs.
WITH waiting AS MATERIALIZED (
  SELECT CAST(l.key AS INTEGER) AS place, l.value->>0 AS queue, CAST(l.value->>1 AS INTEGER) AS priority,
         CAST(l.value->>3 AS BIGINT) AS floor,
         (SELECT w.run_at FROM holdfast_jobs AS w
           WHERE w.hold = 'turn' AND w.parked = 1 AND w.queue = l.value->>0 AND w.priority = CAST(l.value->>1 AS INTEGER)
             AND w.run_at >= CAST(l.value->>2 AS BIGINT) AND w.run_at <= :now
           ORDER BY w.run_at LIMIT 1) AS since
    FROM json_each(:lanes) AS l)
SELECT queue, priority, since,
       CASE WHEN since IS NULL THEN 0 ELSE (
         SELECT COUNT(*) FROM (SELECT 1 FROM holdfast_jobs AS j
                                WHERE j.fair_key IS NOT NULL AND j.state = 'queued' AND j.parked = 0
                                  AND j.queue = l.queue AND j.run_at >= l.floor AND j.run_at <= :now
                                ORDER BY j.run_at LIMIT :most) AS a) END AS admitted,
       CASE WHEN since IS NULL AND priority > 0 THEN NULL ELSE (
         SELECT j.run_at FROM holdfast_jobs AS j
          WHERE j.fair_key IS NOT NULL AND j.state = 'queued' AND j.parked = 0
            AND j.queue = l.queue AND j.run_at >= l.floor AND j.run_at <= :now
          ORDER BY j.run_at LIMIT 1) END AS admitted_since
  FROM waiting AS l ORDER BY place

-- name: next_keys
-- brief
-- The keys that come before another, then those from the highest down to it; each is found by a descent of the index. The
-- cost is that of the keys that are returned, not of those there are, nor of the jobs that wait under them. Read
-- backwards, a descent meets the newest job of a key, which waits while any of them does; the versions of those that had
-- their turn lie at the other end. Of keys that are done it sees what is older than the floor in the index alone. (Why
-- not MAX: see `lanes`.)
WITH RECURSIVE rest(key, place) AS (
  SELECT (SELECT j.fair_key FROM holdfast_jobs AS j
           WHERE j.hold = 'turn' AND j.queue = :queue AND j.priority = :priority AND j.fair_key < :before
             AND j.run_at >= :since
           ORDER BY j.fair_key DESC, j.run_at DESC LIMIT 1), 1
   UNION ALL
  SELECT (SELECT j.fair_key FROM holdfast_jobs AS j
           WHERE j.hold = 'turn' AND j.queue = :queue AND j.priority = :priority AND j.fair_key < rest.key
             AND j.run_at >= :since
           ORDER BY j.fair_key DESC, j.run_at DESC LIMIT 1), rest.place + 1
    FROM rest WHERE rest.key IS NOT NULL AND rest.place < CAST(:limit AS INTEGER)),
again(key, place) AS (
  SELECT (SELECT j.fair_key FROM holdfast_jobs AS j
           WHERE j.hold = 'turn' AND j.queue = :queue AND j.priority = :priority AND j.fair_key >= :before
             AND j.run_at >= :since
           ORDER BY j.fair_key DESC, j.run_at DESC LIMIT 1), CAST(:limit AS INTEGER) + 1
   UNION ALL
  SELECT (SELECT j.fair_key FROM holdfast_jobs AS j
           WHERE j.hold = 'turn' AND j.queue = :queue AND j.priority = :priority AND j.fair_key < again.key
             AND j.fair_key >= :before AND j.run_at >= :since
           ORDER BY j.fair_key DESC, j.run_at DESC LIMIT 1), again.place + 1
    FROM again WHERE again.key IS NOT NULL AND again.place < 2 * CAST(:limit AS INTEGER))
SELECT key, place FROM rest WHERE key IS NOT NULL
 UNION ALL
SELECT key, place FROM again WHERE key IS NOT NULL
 LIMIT :limit

-- name: open
-- One process at a time lets jobs of a queue in where limits count: the others wait for its commit.
INSERT INTO holdfast_turns (queue) VALUES (:queue) ON CONFLICT (queue) DO NOTHING

-- name: lock
SELECT queue FROM holdfast_turns WHERE queue = :queue /*for_update*/

-- name: begun
-- brief
-- What each key has begun: a row with its starts since a time, and one for each job that has not ended; that one counts
-- as a start too if it was let in before that time and is yet to be claimed: it starts when it is. Of a key that was
-- counted before, the jobs that had not ended then are asked by their ids, and those that were started since are found by
-- the time of it; of any other, the whole past is looked through. A statement of its own after the lock, so that it sees
-- what the one before has written. COALESCE: the index of what has not ended would lead over all of the key's dead versions.
SELECT e.key, CAST(NULL AS TEXT) AS id,
       (SELECT COUNT(*) FROM holdfast_jobs AS j WHERE j.fair_key = e.key AND j.turn_at > :since) AS lately
  FROM json_each(:keys) AS e
 UNION ALL
SELECT j.fair_key AS key, CAST(j.id AS TEXT) AS id,
       CASE WHEN j.turn_at > COALESCE(j.last_attempt_at, 0) AND j.turn_at <= :since THEN 1 ELSE 0 END AS lately
  FROM json_each(:known) AS e JOIN holdfast_jobs AS j ON j.id = CAST(e.key AS /*id*/)
 WHERE j.turn_at IS NOT NULL AND j.finished_at IS NULL AND (j.hold IS NULL OR j.hold <> 'turn')
 UNION ALL
SELECT j.fair_key AS key, CAST(j.id AS TEXT) AS id,
       CASE WHEN j.turn_at > COALESCE(j.last_attempt_at, 0) AND j.turn_at <= :since THEN 1 ELSE 0 END AS lately
  FROM json_each(:counted) AS e JOIN holdfast_jobs AS j
    ON j.fair_key = e.key AND j.turn_at >= CAST(e.value->>0 AS BIGINT)
 WHERE COALESCE(j.finished_at, 0) = 0 AND (j.hold IS NULL OR j.hold <> 'turn')
 UNION ALL
SELECT j.fair_key AS key, CAST(j.id AS TEXT) AS id,
       CASE WHEN j.turn_at > COALESCE(j.last_attempt_at, 0) AND j.turn_at <= :since THEN 1 ELSE 0 END AS lately
  FROM json_each(:uncounted) AS e JOIN holdfast_jobs AS j ON j.fair_key = e.key
 WHERE j.turn_at IS NOT NULL AND j.finished_at IS NULL AND (j.hold IS NULL OR j.hold <> 'turn')

-- name: admit @postgres
-- Lets the oldest due jobs of each key into the lanes that workers claim from, as many of each as its share. The provider
-- of the stage is only written now: until then no breaker has anything to do with the job. They come in as what has just
-- come due does, so that every claim sees them, however old they are. When it was is only written for keys with a limit:
-- two indexes count by it.
WITH picked AS MATERIALIZED (
  SELECT d.k, d.p, CAST(s.value->>1 AS BIGINT) AS turn_at FROM json_each(:shares) AS s CROSS JOIN LATERAL (
    SELECT j.id AS k, CAST(:stages AS jsonb) ->> (j.kind || ' ' || j.stage) AS p FROM holdfast_jobs AS j
     WHERE j.hold = 'turn' AND j.queue = :queue AND j.priority = :priority AND j.fair_key = s.key
       AND j.run_at >= :since AND j.run_at <= :now
       AND jsonb_exists(CAST(:stages AS jsonb), j.kind || ' ' || j.stage)
     ORDER BY j.run_at LIMIT CAST(s.value->>0 AS INTEGER) FOR UPDATE SKIP LOCKED) AS d)
UPDATE holdfast_jobs
   SET parked = 0, hold = NULL, provider = picked.p, is_due = 0, run_at = CAST(:now AS BIGINT),
       turn_at = picked.turn_at, updated_at = CAST(:now AS BIGINT)
  FROM picked WHERE id = picked.k
RETURNING fair_key AS key, CAST(id AS TEXT) AS id

-- name: admit @sqlite
-- One key a statement: SQLite has no LATERAL.
UPDATE holdfast_jobs
   SET parked = 0, hold = NULL, is_due = 0, run_at = :now, turn_at = :turn_at, updated_at = :now,
       provider = (SELECT e.value FROM json_each(:stages) AS e WHERE e.key = kind || ' ' || stage)
 WHERE id IN (SELECT j.id FROM holdfast_jobs AS j
               WHERE j.hold = 'turn' AND j.queue = :queue AND j.priority = :priority AND j.fair_key = :key
                 AND j.run_at >= :since AND j.run_at <= :now
                 AND j.kind || ' ' || j.stage IN (SELECT e.key FROM json_each(:stages) AS e)
               ORDER BY j.run_at LIMIT :share)
RETURNING fair_key AS key, CAST(id AS TEXT) AS id
