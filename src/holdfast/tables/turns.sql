-- name: lanes
-- brief
-- Where jobs wait for their turn, the most urgent first, and how many of those that had theirs have not been claimed
-- yet: at most `most` are counted.
SELECT l.value->>0 AS queue, CAST(l.value->>1 AS INTEGER) AS priority,
       (SELECT COUNT(*) FROM (SELECT 1 FROM holdfast_jobs AS j
                               WHERE j.fair_key IS NOT NULL AND j.state = 'queued' AND j.parked = 0
                                 AND j.queue = l.value->>0 AND j.run_at <= :now LIMIT :most) AS a) AS admitted
  FROM json_each(:lanes) AS l
 WHERE EXISTS (SELECT 1 FROM holdfast_jobs AS w
                WHERE w.hold = 'turn' AND w.queue = l.value->>0 AND w.priority = CAST(l.value->>1 AS INTEGER))
 ORDER BY CAST(l.key AS INTEGER)

-- name: next_keys
-- brief
-- The keys that come after one, each found by a descent of the index: the cost is that of the keys that are returned,
-- not of those there are, nor of the jobs that wait under them.
WITH RECURSIVE ring(key, place) AS (
  SELECT (SELECT MIN(j.fair_key) FROM holdfast_jobs AS j
           WHERE j.hold = 'turn' AND j.queue = :queue AND j.priority = :priority AND j.fair_key > :after), 1
   UNION ALL
  SELECT (SELECT MIN(j.fair_key) FROM holdfast_jobs AS j
           WHERE j.hold = 'turn' AND j.queue = :queue AND j.priority = :priority AND j.fair_key > ring.key),
         ring.place + 1
    FROM ring WHERE ring.key IS NOT NULL AND ring.place < CAST(:limit AS INTEGER))
SELECT key FROM ring WHERE key IS NOT NULL ORDER BY place

-- name: open
-- One process at a time lets jobs of a queue in where limits count: the others wait for its commit.
INSERT INTO holdfast_turns (queue) VALUES (:queue) ON CONFLICT (queue) DO NOTHING

-- name: lock
SELECT queue FROM holdfast_turns WHERE queue = :queue /*for_update*/

-- name: begun
-- brief
-- What each key has begun: jobs that have not ended, and starts since a time. A statement of its own after the lock, so
-- that it sees what the one before has written.
SELECT e.key, (SELECT COUNT(*) FROM holdfast_jobs AS j
                WHERE j.fair_key = e.key AND j.turn_at IS NOT NULL AND j.finished_at IS NULL
                  AND (j.hold IS NULL OR j.hold <> 'turn')) AS unended,
       (SELECT COUNT(*) FROM holdfast_jobs AS j WHERE j.fair_key = e.key AND j.turn_at > :since) AS lately
  FROM json_each(:keys) AS e

-- name: admit @postgres
-- Lets the oldest due jobs of each key into the lanes that workers claim from, as many of each as its share. The provider
-- of the stage is only written now: until then no breaker has anything to do with the job. They come in as what has just
-- come due does, so that every claim sees them, however old they are. When it was is only written for keys with a limit:
-- two indexes count by it.
WITH picked AS MATERIALIZED (
  SELECT d.k, d.p, CAST(s.value->>1 AS BIGINT) AS turn_at FROM json_each(:shares) AS s CROSS JOIN LATERAL (
    SELECT j.id AS k, CAST(:stages AS jsonb) ->> (j.kind || ' ' || j.stage) AS p FROM holdfast_jobs AS j
     WHERE j.hold = 'turn' AND j.queue = :queue AND j.priority = :priority AND j.fair_key = s.key AND j.run_at <= :now
       AND jsonb_exists(CAST(:stages AS jsonb), j.kind || ' ' || j.stage)
     ORDER BY j.run_at LIMIT CAST(s.value->>0 AS INTEGER) FOR UPDATE SKIP LOCKED) AS d)
UPDATE holdfast_jobs
   SET parked = 0, hold = NULL, provider = picked.p, is_due = 0, run_at = CAST(:now AS BIGINT),
       turn_at = picked.turn_at, updated_at = CAST(:now AS BIGINT)
  FROM picked WHERE id = picked.k
RETURNING fair_key

-- name: admit @sqlite
-- One key a statement: SQLite has no LATERAL.
UPDATE holdfast_jobs
   SET parked = 0, hold = NULL, is_due = 0, run_at = :now, turn_at = :turn_at, updated_at = :now,
       provider = (SELECT e.value FROM json_each(:stages) AS e WHERE e.key = kind || ' ' || stage)
 WHERE id IN (SELECT j.id FROM holdfast_jobs AS j
               WHERE j.hold = 'turn' AND j.queue = :queue AND j.priority = :priority AND j.fair_key = :key
                 AND j.run_at <= :now AND j.kind || ' ' || j.stage IN (SELECT e.key FROM json_each(:stages) AS e)
               ORDER BY j.run_at LIMIT :share)
RETURNING fair_key
