-- name: begin
INSERT INTO holdfast_joins (id, parent_id, epoch, stage, name, kind, state, created_at, updated_at)
VALUES (:id, CAST(:parent_id AS /*id*/), :epoch, :stage, :name, :kind, :state, CAST(:now AS BIGINT), CAST(:now AS BIGINT))
ON CONFLICT (parent_id, epoch, stage, name) DO NOTHING

-- name: of_stage
SELECT id, name, kind, state, size, unended, created_at FROM holdfast_joins
 WHERE parent_id = CAST(:parent_id AS /*id*/) AND epoch = :epoch AND stage = :stage

-- name: lock @postgres
-- Found from the newest end of the key: the versions that children have left who ended before are met by nobody. Whoever
-- holds the row finds it by its place, in a statement of its own.
SELECT held.id
  FROM (SELECT e.key AS k FROM json_each(:batch) AS e ORDER BY e.key) AS s
 CROSS JOIN LATERAL (
    SELECT j.id FROM holdfast_joins AS j WHERE j.id >= s.k AND j.id <= s.k ORDER BY j.id DESC LIMIT 1 FOR UPDATE) AS held

-- name: grow
-- Adds children that are written in the same commit. The size is the fence: each position is spawned once.
UPDATE holdfast_joins SET size = size + :added, unended = unended + :added, updated_at = CAST(:now AS BIGINT)
 WHERE id = :id AND /*newest holdfast_joins.id :id*/ AND size = :expected AND state IN ('spawning', 'loose')
RETURNING id

-- name: seal
UPDATE holdfast_joins SET state = 'sealed', updated_at = CAST(:now AS BIGINT)
 WHERE id = :id AND /*newest holdfast_joins.id :id*/ AND size = :expected AND state = 'spawning'
RETURNING id

-- name: count_down @sqlite
UPDATE holdfast_joins
   SET unended = unended - s.ended, updated_at = CASE WHEN unended > s.ended THEN updated_at ELSE :now END
  FROM (SELECT e.key AS k, CAST(e.value->>0 AS INTEGER) AS ended FROM json_each(:batch) AS e) AS s
 WHERE holdfast_joins.id = s.k
RETURNING holdfast_joins.id AS id, holdfast_joins.unended AS unended

-- name: count_down @postgres
-- As many at once as ended in one commit: however many children there are, a commit writes each of its joins once. What an
-- index looks at changes with the last child only, so that the other versions stay on the row's page and in no index.
WITH s AS MATERIALIZED (
  SELECT CAST(e.value->>0 AS INTEGER) AS ended,
         (SELECT n.ctid FROM holdfast_joins AS n WHERE n.id >= e.key AND n.id <= e.key ORDER BY n.id DESC LIMIT 1) AS place
    FROM json_each(:batch) AS e)
UPDATE holdfast_joins
   SET unended = unended - s.ended, updated_at = CASE WHEN unended > s.ended THEN updated_at ELSE CAST(:now AS BIGINT) END
  FROM s WHERE holdfast_joins.ctid = s.place
RETURNING holdfast_joins.id AS id, holdfast_joins.unended AS unended

-- name: ready
SELECT id, ended_at FROM holdfast_joins
 WHERE state = 'sealed' AND ended_at IS NOT NULL AND ended_at >= :floor ORDER BY ended_at LIMIT :limit

-- name: move
UPDATE holdfast_joins SET state = :state, updated_at = CAST(:now AS BIGINT)
 WHERE id = :id AND /*newest holdfast_joins.id :id*/ AND state = :expected
RETURNING id

-- name: leave
-- The parent has ended otherwise than well: what it spawned is to be cancelled.
UPDATE holdfast_joins SET state = 'left', updated_at = CAST(:now AS BIGINT)
 WHERE parent_id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e)
   AND state IN ('spawning', 'sealed', 'loose')
RETURNING id

-- name: left
SELECT id, updated_at FROM holdfast_joins WHERE state = 'left' AND updated_at >= :floor ORDER BY updated_at LIMIT :limit

-- name: unended
-- Children that have not ended, locked, in the order of their ids.
SELECT /*Claimed*/, provider
  FROM holdfast_jobs
 WHERE join_id = :id AND state IN ('queued', 'processing', 'waiting') AND id > CAST(:after AS /*id*/)
 ORDER BY id LIMIT :limit /*for_update*/

-- name: outcomes
SELECT CAST(j.id AS TEXT) AS id, j.kind, j.state, j.stage, j.error, r.value, d.category
  FROM holdfast_jobs AS j
  LEFT JOIN holdfast_results AS r ON r.job_id = j.id AND r.stage = j.stage AND r.is_late = 0
  LEFT JOIN holdfast_dead_letters AS d ON d.job_id = j.id
 WHERE j.join_id = :id AND j.id > CAST(:after AS /*id*/)
 ORDER BY j.id LIMIT :limit

-- name: outcome_of
SELECT CAST(j.id AS TEXT) AS id, j.kind, j.state, j.stage, j.error, r.value, d.category
  FROM holdfast_jobs AS j
  LEFT JOIN holdfast_results AS r ON r.job_id = j.id AND r.stage = j.stage AND r.is_late = 0
  LEFT JOIN holdfast_dead_letters AS d ON d.job_id = j.id
 WHERE j.id = CAST(:id AS /*id*/)

-- name: of_parent
-- For people: what a job has spawned, and how far it is.
SELECT id, stage, epoch, kind, state, size, unended, created_at FROM holdfast_joins
 WHERE parent_id = CAST(:parent_id AS /*id*/) ORDER BY created_at, id

-- name: parent_of
SELECT CAST(j.parent_id AS TEXT) AS id FROM holdfast_jobs AS c JOIN holdfast_joins AS j ON j.id = c.join_id
 WHERE c.id = CAST(:id AS /*id*/)

-- name: children_of
-- For people: the children of a job, the first of each join first.
SELECT CAST(c.id AS TEXT) AS id, c.kind, c.stage, c.state, c.created_at, c.finished_at
  FROM holdfast_joins AS j JOIN holdfast_jobs AS c ON c.join_id = j.id
 WHERE j.parent_id = CAST(:parent_id AS /*id*/) ORDER BY j.created_at, c.id LIMIT :limit

-- name: forget
DELETE FROM holdfast_joins WHERE parent_id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e)

-- name: generations
-- How many joins lie above a child, as far as `limit`.
WITH RECURSIVE line (join_id, number) AS (
  SELECT CAST(:join_id AS TEXT), 1
  UNION ALL
  SELECT p.join_id, line.number + 1
    FROM line JOIN holdfast_joins AS j ON j.id = line.join_id JOIN holdfast_jobs AS p ON p.id = j.parent_id
   WHERE p.join_id IS NOT NULL AND line.number < CAST(:limit AS INTEGER)
)
SELECT MAX(number) AS number FROM line
