-- name: seen
-- brief
INSERT INTO holdfast_workers (name, queues, started_at, seen_at, in_flight, declared, heeds)
VALUES (:name, :queues, CAST(:now AS BIGINT), CAST(:now AS BIGINT), :in_flight, :declared, :heeds)
ON CONFLICT (name) DO UPDATE
   SET seen_at = excluded.seen_at, in_flight = excluded.in_flight, heeds = excluded.heeds

-- name: gone
DELETE FROM holdfast_workers WHERE name = :name OR seen_at < :before

-- name: probe_put
INSERT INTO holdfast_workers (name, queues, started_at, seen_at, in_flight) VALUES (:name, '', 0, 0, 0)
ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at

-- name: probe_take
DELETE FROM holdfast_workers WHERE name = :name

-- name: known
-- A lease that has run out is taken back whoever had it.
SELECT lease_owner AS name FROM holdfast_jobs WHERE state = 'processing' AND lease_until >= :now
UNION SELECT name FROM holdfast_workers ORDER BY name

-- name: expire
-- The fence stays what protects the job: should the worker live after all, it finds its lease gone.
UPDATE holdfast_jobs SET lease_until = CAST(:now AS BIGINT) - 1
 WHERE state = 'processing' AND lease_owner = :name AND lease_until >= :now

-- name: declaring
-- What the workers that reported lately may claim; each set once, however many workers have it.
SELECT DISTINCT queues, declared FROM holdfast_workers WHERE seen_at >= :since

-- name: company
-- Those who would answer the same rings: of the same queues and the same code, and who reported lately.
SELECT name FROM holdfast_workers
 WHERE heeds = 1 AND seen_at >= :since AND queues = :queues AND declared = :declared ORDER BY name

-- name: every
SELECT name, queues, started_at, seen_at, in_flight FROM holdfast_workers ORDER BY name
