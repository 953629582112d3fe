-- What every call of a provider changes, apart from the row that every turn looks up. A row is found from the newest end
-- of its key: the versions before it, which a held snapshot keeps, are passed by nobody.
-- oldest: 9
CREATE TABLE holdfast_provider_use (
  name TEXT NOT NULL,
  seq BIGINT NOT NULL,
  state TEXT NOT NULL,
  tokens DOUBLE PRECISION,
  tokens_at BIGINT,
  recent TEXT NOT NULL,
  places TEXT NOT NULL,
  ramp INTEGER NOT NULL,
  ramp_at BIGINT NOT NULL,
  PRIMARY KEY (name, seq)
);

-- The workers, each found from the newest end of its name: a report every twenty seconds leaves a version behind.
-- @postgres
CREATE VIEW holdfast_workers_now AS
WITH RECURSIVE w AS (
  (SELECT n.name, n.queues, n.started_at, n.seen_at, n.in_flight, n.declared, n.heeds, n.drain_at, n.release
     FROM holdfast_workers AS n ORDER BY n.name DESC LIMIT 1)
   UNION ALL
  SELECT p.* FROM w CROSS JOIN LATERAL (
    SELECT n.name, n.queues, n.started_at, n.seen_at, n.in_flight, n.declared, n.heeds, n.drain_at, n.release
      FROM holdfast_workers AS n WHERE n.name < w.name ORDER BY n.name DESC LIMIT 1) AS p)
SELECT name, queues, started_at, seen_at, in_flight, declared, heeds, drain_at, release FROM w;

-- @sqlite
CREATE VIEW holdfast_workers_now AS
SELECT name, queues, started_at, seen_at, in_flight, declared, heeds, drain_at, release FROM holdfast_workers;
