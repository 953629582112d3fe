-- name: lock
SELECT seq, at FROM holdfast_rollup_positions WHERE name >= :name AND name <= :name ORDER BY name DESC LIMIT 1 /*for_update*/

-- name: begin
-- Where an old database begins: with the newest events only.
INSERT INTO holdfast_rollup_positions (name, seq, at)
SELECT :name, CASE WHEN e.newest > CAST(:back AS BIGINT) THEN e.newest - CAST(:back AS BIGINT) ELSE 0 END, 0
  FROM (SELECT COALESCE(MAX(seq), 0) AS newest FROM holdfast_job_events) AS e WHERE TRUE
ON CONFLICT (name) DO NOTHING

-- name: move
UPDATE holdfast_rollup_positions SET seq = CAST(:seq AS BIGINT), at = CAST(:at AS BIGINT)
 WHERE /*newest holdfast_rollup_positions :name*/

-- name: reach
-- How far the next fold goes: what was written a moment ago may have neighbours that are not committed yet.
SELECT MAX(e.seq) AS upto FROM (SELECT seq FROM holdfast_job_events
                                 WHERE seq > :after AND at <= :until ORDER BY seq LIMIT :limit) AS e

-- name: read
-- The attempts that ended between two positions, by minute. The one statement that knows where ends are written. An attempt
-- ran the stage that the last step before it had led to; the time until the first attempt begins is counted with the job's
-- end, and so are the calls of an attempt with the attempt's. The event of a success has the number of its kind's and
-- owner's others in the same turn as its data: it stands for all of them (`jobs`), and their times and calls are taken to be
-- like its own.
WITH bounds AS MATERIALIZED (SELECT CAST(b.value->>0 AS BIGINT) AS most FROM json_each(:bounds) AS b),
ended AS MATERIALIZED (
  SELECT e.at / 60000 * 60000 AS minute, e.job_id, e.attempt, j.kind, j.queue, j.owner, e.at - j.created_at AS took_ms,
         CASE e.type WHEN 'went_on' THEN 'advanced' ELSE e.type END AS result,
         CASE e.type WHEN 'succeeded' THEN j.stage ELSE COALESCE(
           (SELECT x.data/*as json*/ ->> 'stage' FROM holdfast_job_events AS x
             WHERE x.job_id = e.job_id AND x.seq < e.seq AND x.type IN ('advanced', 'went_on', 'rewound', 'replayed')
             ORDER BY x.seq DESC LIMIT 1), '') END AS stage,
         CASE WHEN e.type = 'succeeded' THEN '' ELSE COALESCE(e.data/*as json*/ ->> 'error_class', '') END AS error_class,
         CASE WHEN e.type = 'succeeded' AND e.data NOT LIKE '{%' THEN 1 + CAST(e.data AS BIGINT) ELSE 1 END AS jobs,
         e.at - COALESCE(e.claimed_at, CASE WHEN j.attempt = e.attempt THEN j.last_attempt_at END,
                         (SELECT MAX(c.at) FROM holdfast_every_event AS c
                           WHERE c.job_id = e.job_id AND c.attempt = e.attempt AND c.type = 'claimed'), e.at) AS ran_ms,
         COALESCE(j.started_at, e.at) - j.created_at AS waited_ms
    FROM holdfast_job_events AS e JOIN holdfast_jobs AS j ON j.id = e.job_id
   WHERE e.seq > :after AND e.seq <= :upto
     AND e.type IN ('succeeded', 'advanced', 'went_on', 'retried', 'lost', 'buried', 'expired', 'cancelled')),
timed AS MATERIALIZED (
  SELECT n.*, (SELECT MIN(b.most) FROM bounds AS b WHERE b.most >= n.ran_ms) AS ran,
         (SELECT MIN(b.most) FROM bounds AS b WHERE b.most >= n.waited_ms) AS waited,
         CASE WHEN n.result = 'succeeded' THEN (SELECT MIN(b.most) FROM bounds AS b WHERE b.most >= n.took_ms) ELSE 0 END AS took
    FROM ended AS n)
SELECT 'stage' AS series, minute, kind AS name, stage AS part, result, ran AS bucket, CAST(SUM(jobs) AS BIGINT) AS number,
       CAST(SUM(ran_ms * jobs) AS BIGINT) AS sum
  FROM timed GROUP BY minute, kind, stage, result, ran
 UNION ALL
SELECT 'job', minute, kind, queue, result, waited, CAST(SUM(jobs) AS BIGINT), CAST(SUM(waited_ms * jobs) AS BIGINT)
  FROM timed WHERE result IN ('succeeded', 'buried', 'expired', 'cancelled') GROUP BY minute, kind, queue, result, waited
 UNION ALL
SELECT 'error', minute, kind, stage, error_class, 0, CAST(SUM(jobs) AS BIGINT), 0
  FROM timed WHERE error_class <> '' GROUP BY minute, kind, stage, error_class
 UNION ALL
SELECT 'call', t.minute, c.provider, t.kind, c.outcome,
       (SELECT MIN(b.most) FROM bounds AS b WHERE b.most >= c.duration_ms), CAST(SUM(t.jobs) AS BIGINT), CAST(SUM(c.cost_micros * t.jobs) AS BIGINT)
  FROM timed AS t JOIN holdfast_every_call AS c ON c.job_id = t.job_id AND c.attempt = t.attempt
 GROUP BY t.minute, c.provider, t.kind, c.outcome, 6
 UNION ALL
SELECT 'owner', minute, owner, '', result, took, CAST(SUM(jobs) AS BIGINT), CAST(SUM(took_ms * jobs) AS BIGINT)
  FROM timed WHERE owner IS NOT NULL AND result <> 'advanced' GROUP BY minute, owner, result, took
 UNION ALL
SELECT 'spent', t.minute, t.owner, '', '', 0, CAST(SUM(t.jobs) AS BIGINT), CAST(SUM(c.cost_micros * t.jobs) AS BIGINT)
  FROM timed AS t JOIN holdfast_every_call AS c ON c.job_id = t.job_id AND c.attempt = t.attempt
 WHERE t.owner IS NOT NULL GROUP BY t.minute, t.owner

-- name: submitted
-- Whose jobs were submitted between two ids, which are in the order of time.
SELECT j.created_at / 60000 * 60000 AS minute, j.owner AS name, CAST(COUNT(*) AS BIGINT) AS number
  FROM holdfast_jobs AS j
 WHERE j.id >= CAST(:since_id AS /*id*/) AND j.id < CAST(:until_id AS /*id*/) AND j.owner IS NOT NULL
 GROUP BY 1, j.owner

-- name: add
INSERT INTO holdfast_rollups (span, at, series, name, part, result, bucket, number, sum)
SELECT 60000, CAST(e.value->>0 AS BIGINT), e.value->>1, e.value->>2, e.value->>3, e.value->>4,
       CAST(e.value->>5 AS BIGINT), CAST(e.value->>6 AS BIGINT), CAST(e.value->>7 AS BIGINT)
  FROM json_each(:batch) AS e WHERE TRUE
ON CONFLICT (span, at, series, name, part, result, bucket) DO UPDATE
   SET number = holdfast_rollups.number + excluded.number, sum = holdfast_rollups.sum + excluded.sum

-- name: put
-- What is looked at, and not counted: the last look of a minute stands.
INSERT INTO holdfast_rollups (span, at, series, name, part, result, bucket, number, sum)
SELECT 60000, CAST(e.value->>0 AS BIGINT), e.value->>1, e.value->>2, e.value->>3, e.value->>4,
       CAST(e.value->>5 AS BIGINT), CAST(e.value->>6 AS BIGINT), CAST(e.value->>7 AS BIGINT)
  FROM json_each(:batch) AS e WHERE TRUE
ON CONFLICT (span, at, series, name, part, result, bucket) DO UPDATE SET number = excluded.number, sum = excluded.sum

-- name: fold_hour
-- An hour that is over, of its minutes: written once. What is looked at has no sum over time; the most of it stands.
INSERT INTO holdfast_rollups (span, at, series, name, part, result, bucket, number, sum)
SELECT 3600000, CAST(:hour AS BIGINT), series, name, part, result, bucket,
       CAST(CASE WHEN series IN ('depth', 'deploy') THEN MAX(number) ELSE SUM(number) END AS BIGINT),
       CAST(CASE WHEN series IN ('depth', 'deploy') THEN MAX(sum) ELSE SUM(sum) END AS BIGINT)
  FROM holdfast_rollups
 WHERE span = 60000 AND at >= CAST(:hour AS BIGINT) AND at < CAST(:hour AS BIGINT) + 3600000
 GROUP BY series, name, part, result, bucket
ON CONFLICT (span, at, series, name, part, result, bucket) DO NOTHING

-- name: between
-- In steps of so many milliseconds.
SELECT at / CAST(:step AS BIGINT) * CAST(:step AS BIGINT) AS at, series, name, part, result, bucket,
       CAST(CASE WHEN series IN ('depth', 'deploy') THEN MAX(number) ELSE SUM(number) END AS BIGINT) AS number,
       CAST(CASE WHEN series IN ('depth', 'deploy') THEN MAX(sum) ELSE SUM(sum) END AS BIGINT) AS sum
  FROM holdfast_rollups
 WHERE span = :span AND at >= CAST(:since AS BIGINT) AND at < CAST(:until AS BIGINT)
   AND series IN (SELECT e.key FROM json_each(:series) AS e)
   AND (CAST(:kind AS TEXT) IS NULL OR CASE series WHEN 'call' THEN part ELSE name END = :kind)
   AND (CAST(:part AS TEXT) IS NULL OR part = :part)
   AND (CAST(:name AS TEXT) IS NULL OR name = :name)
 GROUP BY 1, series, name, part, result, bucket

-- name: usual_age
-- How long the oldest due job had waited, minute by minute. Each minute that was looked at has a row of all queues, which
-- counts what is held too: here it stands for a minute in which nothing was due.
SELECT MAX(CASE WHEN part = 'queued' THEN sum ELSE 0 END) AS sum FROM holdfast_rollups
 WHERE span = 60000 AND at >= CAST(:since AS BIGINT) AND at <= CAST(:until AS BIGINT) AND series = 'depth'
   AND part IN ('oldest', 'queued')
 GROUP BY at

-- name: prune
DELETE FROM holdfast_rollups WHERE span = :span AND at >= CAST(:floor AS BIGINT) AND at < CAST(:before AS BIGINT)
RETURNING at

-- name: position
SELECT seq, at FROM holdfast_rollup_positions WHERE name >= :name AND name <= :name ORDER BY name DESC LIMIT 1
