-- name: turn @postgres
-- Ends attempts and leases due jobs in one statement, so that a worker's turn is one round trip and one commit: with
-- BEGIN, two statements and COMMIT its four answers each waited for Python's turn (9 against 15 thousand jobs/s).
-- Either half may be empty. A row that the first half queues again is only seen by the next turn.
--
-- The one door out of an attempt: the fence is id, attempt and the state it is left from. The CASE keeps the planner
-- on the primary key: a plain state = 'processing' made it scan the lease index (91 against 51 us per job).
-- What many attempts of a group come to travels once (tables/endings.py). Rows are locked in the order of their ids, so
-- that two groups which share some cannot wait for each other.
--
-- The claim is one range scan per lane (queue, priority), in the order of creation: a retry does not go behind what
-- came after it. What is not due yet lies outside of the index that it scans; what has come due since (`come`, some
-- hundreds at a time) takes part in the order here, and what of it is not claimed is let into that index.
-- A worker claims what it declares: kind, stage and version of the input, hashed once a statement. The CASE keeps the
-- planner from turning that into a join.
-- A row whose provider is held, or whose kind is paused, is parked where it stands: it leaves the ready index and costs
-- no later claim. The lanes of a paused queue are not looked at, and their floors stay. While anything is paused nobody
-- goes on: every next stage is claimed, where pauses are read.
-- Every scan begins at its lane's floor (core/floor.py); what it saw of each lane comes back in a row of its own. Numbers
-- travel as texts: the driver asks every new session what an array of numbers is (7 ms), and knows texts.
--
-- An attempt that `goes_on` is ended and the next one leased to the same worker in one version of the row, under the
-- next number, unless the provider of the stage that it would enter is held: then the job is queued, as any other.
--
-- A claim is not written as an event, nor is a success: the job's row shows the last of each, and the event that ends an
-- attempt shows when it was claimed (`holdfast_every_event` reads them back). Of a turn only the first claim is written,
-- and of the successes of each kind and owner one, with how many others there were: so the newest events show that
-- something has happened, and charts count without reading jobs.
WITH paused AS MATERIALIZED (SELECT s.sort, s.name FROM holdfast_pauses AS s WHERE s.is_paused = 1),
held AS MATERIALIZED (SELECT b.name FROM holdfast_breakers_now AS b WHERE b.gate <> 'closed'),
fates AS MATERIALIZED (
  SELECT r.*, r.goes_on = 1 AND NOT EXISTS (SELECT 1 FROM paused)
             AND (r.provider IS NULL OR r.provider NOT IN (SELECT name FROM held)) AS goes
    FROM (SELECT CAST(e.key AS INTEGER) AS place, /*Fate from e*/ FROM json_each(:fates) AS e) AS r),
attempts AS MATERIALIZED (
  SELECT CAST(e.key AS uuid) AS id, CAST(e.value->>0 AS INTEGER) AS attempt, CAST(e.value->>1 AS INTEGER) AS place, e.value->>2 AS value
    FROM json_each(:batch) AS e),
fin AS (
  UPDATE holdfast_jobs AS j
     SET state = CASE WHEN s.goes THEN 'processing' ELSE s.state END, attempt = j.attempt + CAST(s.goes AS INTEGER),
         stage = s.stage, run_at = CASE WHEN s.goes THEN j.run_at ELSE s.run_at END, failures = s.failures,
         crashes = s.crashes, provider = s.provider, not_before = s.not_before, first_failure_at = s.first_failure_at,
         wait_key = s.wait_key, hold = s.hold, is_due = s.is_due,
         error = CASE WHEN s.state <> 'succeeded' THEN COALESCE(s.error, j.error) END,
         done = COALESCE(s.done, j.done), tally = s.tally, parked = CASE s.hold WHEN 'limit' THEN 1 ELSE 0 END,
         updated_at = :now, lease_owner = CASE WHEN s.goes THEN j.lease_owner END,
         lease_until = CASE WHEN s.goes THEN GREATEST(j.lease_until, CAST(:lease_until AS BIGINT)) END,
         last_attempt_at = CASE WHEN s.goes THEN CAST(:now AS BIGINT) ELSE j.last_attempt_at END,
         finished_at = CASE WHEN s.state IN ('succeeded', 'dead', 'cancelled') THEN CAST(:now AS BIGINT) END
    FROM (SELECT a.id, a.attempt, a.value, f.* FROM attempts AS a JOIN fates AS f USING (place) ORDER BY a.id) AS s
   WHERE j.id = s.id AND j.attempt = s.attempt AND CASE j.state WHEN s.expected THEN TRUE ELSE FALSE END
  RETURNING j.id, j.kind, s.attempt, s.event, s.data, s.from_stage, s.value, s.claimed_at, s.goes, j.owner),
kept AS (
  INSERT INTO holdfast_results (job_id, stage, attempt, is_late, at, value)
  SELECT id, from_stage, attempt, CASE event WHEN 'expired' THEN 1 ELSE 0 END, CAST(:now AS BIGINT), value
    FROM fin WHERE value IS NOT NULL
      ON CONFLICT (job_id, stage, is_late) DO NOTHING),
ready AS MATERIALIZED (
  SELECT d.k, lane.q, d.pr, d.ca, d.held
    FROM (SELECT * FROM unnest(CAST(:queues AS text[]), CAST(CAST(:priorities AS text[]) AS smallint[]), CAST(CAST(:floors AS text[]) AS bigint[])) AS u(q, p, lo)
           WHERE u.q NOT IN (SELECT s.name FROM paused AS s WHERE s.sort = 'queue')) AS lane
   CROSS JOIN LATERAL (
    SELECT ctid AS k, priority AS pr, created_at AS ca,
           CASE WHEN kind IN (SELECT s.name FROM paused AS s WHERE s.sort = 'kind') THEN 'pause'
                WHEN provider IS NOT NULL AND hold IS DISTINCT FROM 'trial' AND provider IN (SELECT b.name FROM held AS b)
                THEN 'breaker' END AS held
      FROM holdfast_jobs
     WHERE state = 'queued' AND parked = 0 AND is_due = 1 AND queue = lane.q AND priority = lane.p
       AND created_at >= lane.lo AND run_at <= :now
       AND CASE WHEN kind || ' ' || stage || ' ' || version IN (
            SELECT e.key FROM json_each(:declared) AS e) THEN TRUE ELSE FALSE END
     ORDER BY created_at LIMIT :limit FOR UPDATE SKIP LOCKED) AS d
   LIMIT :limit),
come AS MATERIALIZED (
  SELECT d.k, lane.q, d.pr, d.ca, d.ra, d.held
    FROM (SELECT * FROM unnest(CAST(:later_queues AS text[]), CAST(CAST(:later_floors AS text[]) AS bigint[])) AS u(q, lo)
           WHERE u.q NOT IN (SELECT s.name FROM paused AS s WHERE s.sort = 'queue')) AS lane
   CROSS JOIN LATERAL (
    SELECT ctid AS k, priority AS pr, created_at AS ca, run_at AS ra,
           CASE WHEN kind IN (SELECT s.name FROM paused AS s WHERE s.sort = 'kind') THEN 'pause'
                WHEN provider IS NOT NULL AND hold IS DISTINCT FROM 'trial' AND provider IN (SELECT b.name FROM held AS b)
                THEN 'breaker' END AS held
      FROM holdfast_jobs
     WHERE state = 'queued' AND is_due = 0 AND parked = 0 AND queue = lane.q AND run_at >= lane.lo AND run_at <= :now
       AND CASE WHEN kind || ' ' || stage || ' ' || version IN (
            SELECT e.key FROM json_each(:declared) AS e) THEN TRUE ELSE FALSE END
     ORDER BY run_at LIMIT 500 FOR UPDATE SKIP LOCKED) AS d),
picked AS MATERIALIZED (
  SELECT pool.k, pool.q, pool.pr, pool.ca, pool.ra, pool.held, pool.place,
         CASE WHEN pool.place > :limit THEN pool.other WHEN pool.held IS NOT NULL THEN 'park' ELSE 'claim' END AS act
    FROM (SELECT every.*, ROW_NUMBER() OVER (ORDER BY every.pr, every.ca) AS place
            FROM (SELECT k, q, pr, ca, CAST(NULL AS bigint) AS ra, held, 'leave' AS other FROM ready
                   UNION ALL SELECT k, q, pr, ca, ra, held, 'admit' FROM come) AS every) AS pool),
got AS (
  UPDATE holdfast_jobs AS j
     SET state = CASE p.act WHEN 'claim' THEN 'processing' ELSE 'queued' END,
         is_due = 1,
         parked = CASE p.act WHEN 'park' THEN 1 ELSE 0 END,
         hold = CASE p.act WHEN 'park' THEN p.held ELSE j.hold END,
         provider = CASE WHEN p.act = 'park' AND p.held = 'pause' THEN NULL ELSE j.provider END,
         attempt = j.attempt + CASE p.act WHEN 'claim' THEN 1 ELSE 0 END,
         lease_owner = CASE p.act WHEN 'claim' THEN CAST(:owner AS TEXT) END,
         lease_until = CASE p.act WHEN 'claim' THEN CAST(:lease_until AS BIGINT) END,
         started_at = CASE p.act WHEN 'claim' THEN COALESCE(j.started_at, CAST(:now AS BIGINT)) ELSE j.started_at END,
         last_attempt_at = CASE p.act WHEN 'claim' THEN CAST(:now AS BIGINT) ELSE j.last_attempt_at END,
         turn_at = CASE WHEN p.act = 'claim' AND j.turn_at > COALESCE(j.last_attempt_at, 0) THEN :now ELSE j.turn_at END,
         updated_at = :now
    FROM picked AS p WHERE j.ctid = p.k AND p.act <> 'leave'
  RETURNING /*Claimed of j*/, p.act, p.place),
logged AS (
  INSERT INTO holdfast_job_events (job_id, attempt, type, at, data, claimed_at)
  SELECT id, attempt, event, CAST(:now AS BIGINT), data, claimed_at FROM fin WHERE event <> 'succeeded'
   UNION ALL
  SELECT id, attempt, event, CAST(:now AS BIGINT), CASE WHEN jobs > 1 THEN CAST(jobs - 1 AS TEXT) END, claimed_at
    FROM (SELECT fin.*, COUNT(*) OVER same AS jobs, ROW_NUMBER() OVER same AS place
            FROM fin WHERE event = 'succeeded' WINDOW same AS (PARTITION BY kind, owner)) AS succeeded
   WHERE place = 1
   UNION ALL
  SELECT id, attempt, CASE act WHEN 'park' THEN 'parked' ELSE 'claimed' END, CAST(:now AS BIGINT), NULL, NULL
    FROM got WHERE act = 'park' OR (act = 'claim' AND place = 1))
SELECT /*Claimed*/ FROM got WHERE act <> 'admit'
 UNION ALL
SELECT string_agg(CAST(id AS TEXT) || CASE WHEN goes THEN '+' ELSE '' END, ','), /*Claimed absent*/ FROM fin
 UNION ALL
SELECT CAST(pg_notify('holdfast', h || CASE WHEN h LIKE 'queue:%' THEN ' #' || txid_current() ELSE '' END) AS TEXT),
       /*Claimed absent*/ FROM unnest(CAST(:channels AS text[])) AS h
 UNION ALL
SELECT CAST(json_agg(json_build_array(q, pr, is_back, n, ca, ra, least)) AS TEXT), /*Claimed absent*/
  FROM (SELECT q, pr, ra IS NOT NULL AS is_back, COUNT(*) AS n, MAX(ca) AS ca, MAX(ra) AS ra,
               MIN(ca) FILTER (WHERE act IN ('leave', 'admit')) AS least
          FROM picked GROUP BY q, pr, ra IS NOT NULL
         UNION ALL SELECT p.name, NULL, NULL, 0, NULL, NULL, NULL
          FROM paused AS p WHERE p.sort = 'queue') AS seen

-- name: due_lanes @sqlite
-- brief
-- Which lanes have anything due, in order of urgency: most claims find most lanes empty, and the claim itself costs more.
-- Those of a paused queue are left out, and the queue is named, without a priority.
SELECT e.value->>0 AS queue, CAST(e.value->>1 AS INTEGER) AS priority, e.key AS place
  FROM json_each(:lanes) AS e
 WHERE e.value->>0 NOT IN (SELECT s.name FROM holdfast_pauses AS s WHERE s.sort = 'queue' AND s.is_paused = 1)
   AND EXISTS (SELECT 1 FROM holdfast_jobs AS j
                WHERE j.state = 'queued' AND j.parked = 0 AND j.is_due = 1 AND j.queue = e.value->>0
                  AND j.priority = CAST(e.value->>1 AS INTEGER) AND j.created_at >= CAST(e.value->>2 AS INTEGER)
                  AND j.run_at <= :now)
 UNION ALL SELECT s.name, NULL, -1 FROM holdfast_pauses AS s WHERE s.sort = 'queue' AND s.is_paused = 1
 ORDER BY place

-- name: claim @sqlite
-- brief
-- One lane a statement: the single statement over all lanes slows from 1.7 to 22.8 ms behind 200,000 future rows.
UPDATE holdfast_jobs
   SET state = CASE WHEN due.held IS NOT NULL THEN 'queued' ELSE 'processing' END,
       parked = CASE WHEN due.held IS NOT NULL THEN 1 ELSE 0 END,
       hold = CASE WHEN due.held IS NOT NULL THEN due.held ELSE hold END,
       provider = CASE due.held WHEN 'pause' THEN NULL ELSE provider END,
       attempt = attempt + CASE WHEN due.held IS NOT NULL THEN 0 ELSE 1 END,
       lease_owner = CASE WHEN due.held IS NOT NULL THEN NULL ELSE :owner END,
       lease_until = CASE WHEN due.held IS NOT NULL THEN NULL ELSE :lease_until END,
       started_at = CASE WHEN due.held IS NOT NULL THEN started_at ELSE COALESCE(started_at, :now) END,
       last_attempt_at = CASE WHEN due.held IS NOT NULL THEN last_attempt_at ELSE :now END,
       turn_at = CASE WHEN due.held IS NULL AND turn_at > COALESCE(last_attempt_at, 0) THEN :now ELSE turn_at END,
       updated_at = :now
  FROM (SELECT id AS k, CASE WHEN kind IN (SELECT s.name FROM holdfast_pauses AS s WHERE s.sort = 'kind' AND s.is_paused = 1) THEN 'pause'
                       WHEN provider IS NOT NULL AND hold IS NOT 'trial' AND provider IN (
                 SELECT name FROM holdfast_breakers_now WHERE gate <> 'closed') THEN 'breaker' END AS held
          FROM holdfast_jobs
         WHERE state = 'queued' AND parked = 0 AND is_due = 1 AND queue = :queue AND priority = :priority
           AND created_at >= :floor AND run_at <= :now
           AND CASE WHEN kind || ' ' || stage || ' ' || version IN (
                SELECT e.key FROM json_each(:declared) AS e) THEN TRUE ELSE FALSE END
         ORDER BY created_at LIMIT :limit) AS due
 WHERE holdfast_jobs.id = due.k
RETURNING /*Claimed*/

-- name: claim_one @postgres
-- brief
-- For engines that are told a job's id, and for newcomers. The same guards as the claim; a doorbell that is early or late
-- finds nothing. The claim is written down in the same statement: whoever waits for it waits for one round trip.
WITH claimed AS (
  UPDATE holdfast_jobs
     SET state = 'processing', attempt = attempt + 1, lease_owner = :owner, lease_until = :lease_until,
         started_at = COALESCE(started_at, CAST(:now AS BIGINT)), last_attempt_at = :now, updated_at = :now,
         turn_at = CASE WHEN turn_at > COALESCE(last_attempt_at, 0) THEN :now ELSE turn_at END
   WHERE id = CAST(:id AS /*id*/) AND state = 'queued' AND parked = 0 AND run_at <= :now
     AND CASE WHEN kind || ' ' || stage || ' ' || version IN (
          SELECT e.key FROM json_each(:declared) AS e) THEN TRUE ELSE FALSE END
     AND (provider IS NULL OR hold = 'trial'
          OR provider NOT IN (SELECT b.name FROM holdfast_breakers_now AS b WHERE b.gate <> 'closed'))
     AND NOT EXISTS (SELECT 1 FROM holdfast_pauses AS s WHERE s.is_paused = 1
                        AND s.name = CASE s.sort WHEN 'kind' THEN kind ELSE queue END)
  RETURNING /*Claimed*/),
noted AS (
  INSERT INTO holdfast_job_events (job_id, attempt, type, at)
  SELECT CAST(c.id AS /*id*/), c.attempt, 'claimed', CAST(:now AS BIGINT) FROM claimed AS c)
SELECT * FROM claimed

-- name: claim_one @sqlite
-- brief
UPDATE holdfast_jobs
   SET state = 'processing', attempt = attempt + 1, lease_owner = :owner, lease_until = :lease_until,
       started_at = COALESCE(started_at, CAST(:now AS BIGINT)), last_attempt_at = :now, updated_at = :now,
       turn_at = CASE WHEN turn_at > COALESCE(last_attempt_at, 0) THEN :now ELSE turn_at END
 WHERE id = CAST(:id AS /*id*/) AND state = 'queued' AND parked = 0 AND run_at <= :now
   AND CASE WHEN kind || ' ' || stage || ' ' || version IN (
        SELECT e.key FROM json_each(:declared) AS e) THEN TRUE ELSE FALSE END
   AND (provider IS NULL OR hold = 'trial'
        OR provider NOT IN (SELECT b.name FROM holdfast_breakers_now AS b WHERE b.gate <> 'closed'))
   AND NOT EXISTS (SELECT 1 FROM holdfast_pauses AS s WHERE s.is_paused = 1
                      AND s.name = CASE s.sort WHEN 'kind' THEN kind ELSE queue END)
RETURNING /*Claimed*/

-- name: end @sqlite
-- brief
WITH fates AS MATERIALIZED (
  SELECT r.*, r.goes_on = 1 AND NOT EXISTS (SELECT 1 FROM holdfast_pauses AS s WHERE s.is_paused = 1)
             AND (r.provider IS NULL OR r.provider NOT IN (
             SELECT b.name FROM holdfast_breakers_now AS b WHERE b.gate <> 'closed')) AS goes
    FROM (SELECT e.key AS place, /*Fate from e*/ FROM json_each(:fates) AS e) AS r),
s AS MATERIALIZED (
  SELECT e.key AS id, e.value->>0 AS attempt, f.*
    FROM json_each(:batch) AS e CROSS JOIN fates AS f WHERE f.place = e.value->>1)
UPDATE holdfast_jobs
   SET state = CASE WHEN s.goes THEN 'processing' ELSE s.state END, attempt = holdfast_jobs.attempt + s.goes,
       stage = s.stage, run_at = CASE WHEN s.goes THEN holdfast_jobs.run_at ELSE s.run_at END, failures = s.failures,
       crashes = s.crashes, provider = s.provider, not_before = s.not_before, first_failure_at = s.first_failure_at,
       wait_key = s.wait_key, hold = s.hold, is_due = s.is_due,
       error = CASE WHEN s.state <> 'succeeded' THEN COALESCE(s.error, holdfast_jobs.error) END,
       done = COALESCE(s.done, holdfast_jobs.done), tally = s.tally,
       parked = CASE s.hold WHEN 'limit' THEN 1 ELSE 0 END, updated_at = :now,
       lease_owner = CASE WHEN s.goes THEN holdfast_jobs.lease_owner END,
       lease_until = CASE WHEN s.goes THEN MAX(holdfast_jobs.lease_until, :lease_until) END,
       last_attempt_at = CASE WHEN s.goes THEN :now ELSE holdfast_jobs.last_attempt_at END,
       finished_at = CASE WHEN s.state IN ('succeeded', 'dead', 'cancelled') THEN :now END
  FROM s
 WHERE holdfast_jobs.id = s.id AND holdfast_jobs.attempt = s.attempt AND holdfast_jobs.state = s.expected
RETURNING holdfast_jobs.id AS id, holdfast_jobs.state AS state

-- name: log_ends @sqlite
-- brief
INSERT INTO holdfast_job_events (job_id, attempt, type, at, data, claimed_at)
SELECT s.id, s.attempt, s.event, :now, s.data, s.claimed_at
  FROM (SELECT e.key AS id, e.value->>0 AS attempt, e.value->>1 AS event, e.value->>2 AS data, e.value->>3 AS claimed_at
          FROM json_each(:batch) AS e) AS s

-- name: keep_values @sqlite
-- brief
-- The first result of a stage stands.
INSERT INTO holdfast_results (job_id, stage, attempt, is_late, at, value)
SELECT s.id, s.from_stage, s.attempt, CASE s.event WHEN 'expired' THEN 1 ELSE 0 END, :now, s.value
  FROM (SELECT e.key AS id, e.value->>0 AS attempt, e.value->>2 AS value, f.*
          FROM json_each(:batch) AS e
          JOIN (SELECT e.key AS place, /*Fate from e*/ FROM json_each(:fates) AS e) AS f ON f.place = e.value->>1) AS s
 WHERE s.value IS NOT NULL
    ON CONFLICT (job_id, stage, is_late) DO NOTHING

-- name: lock_one
-- brief
SELECT /*Claimed*/, provider
  FROM holdfast_jobs WHERE id = CAST(:id AS /*id*/) /*for_update*/

-- name: lock_waiting
-- brief
SELECT /*Claimed*/, provider
  FROM holdfast_jobs WHERE wait_key = :wait_key /*for_update*/

-- name: revive
-- Only a replay brings the dead back: same id and history, a new epoch, a fresh budget, never before `not_before`, and
-- as much time until its deadline as it had at first, whether its kind or its own order gave it. The next claim finds out
-- whether it is due, or its key's turn comes.
UPDATE holdfast_jobs
   SET state = 'queued', stage = :stage, provider = CASE WHEN fair_key IS NULL THEN CAST(:provider AS TEXT) END,
       parked = CASE WHEN fair_key IS NULL THEN 0 ELSE 1 END, hold = CASE WHEN fair_key IS NOT NULL THEN 'turn' END,
       epoch = epoch + 1, failures = 0, crashes = 0,
       run_at = CASE WHEN not_before IS NOT NULL AND not_before > :run_at THEN not_before ELSE :run_at END,
       is_due = CASE WHEN fair_key IS NULL THEN 0 ELSE 1 END, done = COALESCE(CAST(:done AS TEXT), done),
       deadline_at = :now + deadline_at - COALESCE(
         (SELECT MAX(e.at) FROM holdfast_job_events e WHERE e.job_id = holdfast_jobs.id AND e.type = 'replayed'),
         created_at),
       finished_at = NULL, first_failure_at = NULL, error = NULL, tally = NULL, updated_at = :now
 WHERE id = CAST(:id AS /*id*/) AND state = 'dead'
RETURNING attempt, run_at, queue

-- name: take_back
-- A success without its evidence: as a death leaves it, so that a replay, and nothing else, brings it back.
UPDATE holdfast_jobs SET state = 'dead', stage = :stage, error = :error, finished_at = :now, updated_at = :now
 WHERE id = CAST(:id AS /*id*/) AND state = 'succeeded'
RETURNING attempt

-- name: correct
-- Another input for a job that is dead: nobody runs it, and a replay is the only way back.
UPDATE holdfast_jobs SET payload = :payload, version = :version, updated_at = :now
 WHERE id = CAST(:id AS /*id*/) AND state = 'dead'
RETURNING attempt

-- name: unpark
-- Those that were parked first go first. They come back as what has just come due does, so that every claim sees them.
WITH picked AS MATERIALIZED (
  SELECT id AS k FROM holdfast_jobs
   WHERE state = 'queued' AND parked = 1 AND provider = :provider AND updated_at >= :floor
   ORDER BY updated_at LIMIT :limit /*skip_locked*/)
UPDATE holdfast_jobs SET parked = 0, hold = :hold, is_due = 0, updated_at = :now,
       run_at = CASE WHEN run_at > :now THEN run_at ELSE CAST(:now AS BIGINT) END
 WHERE id IN (SELECT k FROM picked)
RETURNING CAST(id AS TEXT) AS id, queue

-- name: show
SELECT CAST(id AS TEXT) AS id, kind, queue, stage, state, parked, hold, provider, priority, attempt, failures, crashes,
       epoch, run_at, created_at, updated_at, started_at, finished_at, deadline_at, last_attempt_at, first_failure_at,
       not_before, lease_owner, lease_until, wait_key, job_key, owner, trace, version, payload, error
  FROM holdfast_jobs WHERE id = CAST(:id AS /*id*/)

-- name: page
-- The newest first; `before` is the last id of the page before.
SELECT CAST(id AS TEXT) AS id, kind, queue, stage, state, parked, hold, provider, priority, attempt, failures, crashes,
       epoch, run_at, created_at, updated_at, started_at, finished_at, deadline_at, lease_owner, lease_until, owner,
       job_key, error
  FROM holdfast_jobs
 WHERE (CAST(:before AS TEXT) IS NULL OR id < CAST(:before AS /*id*/))
   AND (CAST(:state AS TEXT) IS NULL OR state = :state)
   AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
   AND (CAST(:owner AS TEXT) IS NULL OR owner = :owner)
 ORDER BY holdfast_jobs.id DESC LIMIT :limit

-- name: prune
-- In bounded batches, oldest first. Dead jobs go only once their case is resolved.
DELETE FROM holdfast_jobs WHERE id IN (
  SELECT j.id FROM holdfast_jobs AS j
   WHERE j.id > CAST(:after AS /*id*/) AND j.id < CAST(:upto AS /*id*/) AND j.finished_at < :before
     AND (j.state IN ('succeeded', 'cancelled') OR (j.state = 'dead' AND EXISTS (
          SELECT 1 FROM holdfast_dead_letters AS d WHERE d.job_id = j.id AND d.state = 'resolved')))
   ORDER BY j.id LIMIT :limit)
RETURNING CAST(id AS TEXT) AS id

-- name: forget
-- Everything of a queue, in bounded batches: for queues that only measured something.
WITH picked AS MATERIALIZED (
  SELECT id AS k FROM holdfast_jobs WHERE queue = :queue AND state <> 'processing' LIMIT :limit /*skip_locked*/)
DELETE FROM holdfast_jobs WHERE id IN (SELECT k FROM picked)
RETURNING CAST(id AS TEXT) AS id
