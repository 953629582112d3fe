-- name: sign
-- brief
-- A sign of life. Its number rises with it, and is part of its key: the signs before it are passed by nobody. No row: the
-- first is yet to come.
UPDATE holdfast_worker_signs SET seq = seq + 1, seen_at = CAST(:now AS BIGINT), in_flight = :in_flight,
       holds_until = CAST(:holds_until AS BIGINT)
 WHERE name = :name AND seq = (SELECT n.seq FROM holdfast_worker_signs AS n WHERE n.name = :name ORDER BY n.seq DESC LIMIT 1)
RETURNING seq

-- name: first_sign
-- brief
INSERT INTO holdfast_worker_signs (name, seq, seen_at, in_flight, holds_until)
VALUES (:name, 0, CAST(:now AS BIGINT), :in_flight, CAST(:holds_until AS BIGINT))
ON CONFLICT (name, seq) DO NOTHING

-- name: hold
-- brief
-- Only that it holds what it holds: of a worker that cannot say itself that it is there.
UPDATE holdfast_worker_signs SET seq = seq + 1, holds_until = CAST(:holds_until AS BIGINT)
 WHERE name = :name AND seq = (SELECT n.seq FROM holdfast_worker_signs AS n WHERE n.name = :name ORDER BY n.seq DESC LIMIT 1)
RETURNING seq

-- name: own_row
-- brief
SELECT heeds, seen_at, drain_at FROM holdfast_workers WHERE name >= :name AND name <= :name ORDER BY name DESC LIMIT 1

-- name: introduce
-- brief
INSERT INTO holdfast_workers (name, queues, started_at, seen_at, in_flight, declared, heeds, release)
VALUES (:name, :queues, CAST(:now AS BIGINT), CAST(:now AS BIGINT), :in_flight, :declared, :heeds, :release)
ON CONFLICT (name) DO UPDATE
   SET seen_at = excluded.seen_at, in_flight = excluded.in_flight, heeds = excluded.heeds
RETURNING drain_at

-- name: gone
DELETE FROM holdfast_workers WHERE name = :name OR seen_at < :before

-- name: forget_signs
DELETE FROM holdfast_worker_signs WHERE name = :name OR seen_at < :before

-- name: probe_put @postgres
-- Under a number that was never used: nobody asks what became of those before it.
INSERT INTO holdfast_worker_signs (name, seq, seen_at, in_flight) VALUES (:name, txid_current(), 0, 0)

-- name: probe_put @sqlite
INSERT INTO holdfast_worker_signs (name, seq, seen_at, in_flight) VALUES (:name, 0, 0, 0)

-- name: probe_take @postgres
DELETE FROM holdfast_worker_signs WHERE name = :name AND seq = txid_current()

-- name: probe_take @sqlite
DELETE FROM holdfast_worker_signs WHERE name = :name AND seq = 0

-- name: known
-- A lease that has run out is taken back whoever had it.
SELECT lease_owner AS name FROM holdfast_jobs WHERE state = 'processing' AND lease_until >= :now
UNION SELECT name FROM holdfast_workers_now ORDER BY name

-- name: expire
-- The fence stays what protects the job: should the worker live after all, it finds its lease gone.
UPDATE holdfast_jobs SET lease_until = CAST(:now AS BIGINT) - 1
 WHERE state = 'processing' AND lease_owner = :name AND lease_until >= :now

-- name: declaring
-- What the workers that reported lately may claim; each set once, however many workers have it.
SELECT DISTINCT queues, declared FROM holdfast_workers_now WHERE seen_at >= :since AND drain_at IS NULL

-- name: company
-- Those who would answer the same rings: of the same queues and the same code, and who reported lately.
SELECT name FROM holdfast_workers_now
 WHERE heeds = 1 AND seen_at >= :since AND queues = :queues AND declared = :declared ORDER BY name

-- name: read_every
SELECT name, queues, started_at, seen_at, in_flight, drain_at, release FROM holdfast_workers_now ORDER BY name

-- name: drain
-- A wish, for the worker to read with its next report. One without a release is of older code, or no worker of ours.
UPDATE holdfast_workers SET drain_at = CAST(:drain_at AS BIGINT)
 WHERE /*newest holdfast_workers :name*/ AND release IS NOT NULL
RETURNING in_flight

-- name: running
-- The jobs that a worker holds, the oldest first.
SELECT CAST(id AS TEXT) AS id, kind, stage, attempt, last_attempt_at FROM holdfast_jobs
 WHERE state = 'processing' AND lease_owner = :name AND lease_until >= :since ORDER BY last_attempt_at LIMIT :limit

-- name: started_since
SELECT release, declared, started_at FROM holdfast_workers_now WHERE started_at >= :since AND queues <> ''
