-- name: seen
INSERT INTO holdfast_workers (name, queues, started_at, seen_at, in_flight)
VALUES (:name, :queues, CAST(:now AS BIGINT), CAST(:now AS BIGINT), :in_flight)
ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at, in_flight = excluded.in_flight

-- name: gone
DELETE FROM holdfast_workers WHERE name = :name OR seen_at < :before

-- name: every
SELECT name, queues, started_at, seen_at, in_flight FROM holdfast_workers ORDER BY name
