-- Rows that are written again and again, by the clock or by every answer of a provider, found from the newest end of their
-- key: the versions that a held snapshot keeps are passed by nobody. A worker's sign of life, the most frequent, lies apart
-- from what a worker says once, with its number in its key.
-- oldest: 9
CREATE TABLE holdfast_worker_signs (
  name TEXT NOT NULL,
  seq BIGINT NOT NULL,
  seen_at BIGINT NOT NULL,
  in_flight INTEGER NOT NULL,
  PRIMARY KEY (name, seq)
);

-- A sign that is older than the worker's own row was written before code of before wrote that.
-- @postgres
CREATE OR REPLACE VIEW holdfast_workers_now AS
WITH RECURSIVE w AS (
  (SELECT n.name, n.queues, n.started_at, n.seen_at, n.in_flight, n.declared, n.heeds, n.drain_at, n.release
     FROM holdfast_workers AS n ORDER BY n.name DESC LIMIT 1)
   UNION ALL
  SELECT p.* FROM w CROSS JOIN LATERAL (
    SELECT n.name, n.queues, n.started_at, n.seen_at, n.in_flight, n.declared, n.heeds, n.drain_at, n.release
      FROM holdfast_workers AS n WHERE n.name < w.name ORDER BY n.name DESC LIMIT 1) AS p)
SELECT w.name, w.queues, w.started_at, GREATEST(w.seen_at, s.seen_at) AS seen_at,
       CASE WHEN s.seen_at >= w.seen_at THEN s.in_flight ELSE w.in_flight END AS in_flight, w.declared, w.heeds, w.drain_at,
       w.release
  FROM w LEFT JOIN LATERAL (SELECT n.seen_at, n.in_flight FROM holdfast_worker_signs AS n
                             WHERE n.name = w.name ORDER BY n.seq DESC LIMIT 1) AS s ON TRUE;

-- @sqlite
DROP VIEW holdfast_workers_now;

-- @sqlite
CREATE VIEW holdfast_workers_now AS
SELECT w.name, w.queues, w.started_at, MAX(w.seen_at, COALESCE(s.seen_at, 0)) AS seen_at,
       CASE WHEN s.seen_at >= w.seen_at THEN s.in_flight ELSE w.in_flight END AS in_flight, w.declared, w.heeds, w.drain_at,
       w.release
  FROM holdfast_workers AS w LEFT JOIN holdfast_worker_signs AS s ON s.name = w.name
   AND s.seq = (SELECT n.seq FROM holdfast_worker_signs AS n WHERE n.name = w.name ORDER BY n.seq DESC LIMIT 1);

-- @postgres
CREATE VIEW holdfast_breakers_now AS
WITH RECURSIVE b AS (
  (SELECT n.name, n.gate, n.state, n.not_before, n.updated_at FROM holdfast_breakers AS n ORDER BY n.name DESC LIMIT 1)
   UNION ALL
  SELECT p.* FROM b CROSS JOIN LATERAL (
    SELECT n.name, n.gate, n.state, n.not_before, n.updated_at
      FROM holdfast_breakers AS n WHERE n.name < b.name ORDER BY n.name DESC LIMIT 1) AS p)
SELECT name, gate, state, not_before, updated_at FROM b;

-- @sqlite
CREATE VIEW holdfast_breakers_now AS SELECT name, gate, state, not_before, updated_at FROM holdfast_breakers;

-- @postgres
CREATE VIEW holdfast_schedules_now AS
WITH RECURSIVE s AS (
  (SELECT n.name, n.cron, n.kind, n.payload, n.next_at, n.last_at, n.timezone, n.jitter_ms, n.overlap, n.paused, n.added
     FROM holdfast_schedules AS n ORDER BY n.name DESC LIMIT 1)
   UNION ALL
  SELECT p.* FROM s CROSS JOIN LATERAL (
    SELECT n.name, n.cron, n.kind, n.payload, n.next_at, n.last_at, n.timezone, n.jitter_ms, n.overlap, n.paused, n.added
      FROM holdfast_schedules AS n WHERE n.name < s.name ORDER BY n.name DESC LIMIT 1) AS p)
SELECT name, cron, kind, payload, next_at, last_at, timezone, jitter_ms, overlap, paused, added FROM s;

-- @sqlite
CREATE VIEW holdfast_schedules_now AS
SELECT name, cron, kind, payload, next_at, last_at, timezone, jitter_ms, overlap, paused, added FROM holdfast_schedules;
