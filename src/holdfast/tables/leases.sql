-- name: renew
-- brief
-- One statement extends every lease of a worker; ids that do not come back are lost to it.
UPDATE holdfast_jobs SET lease_until = CAST(:lease_until AS BIGINT)
  FROM (SELECT CAST(e.key AS /*id*/) AS k, CAST(e.value->>0 AS BIGINT) AS at FROM json_each(:batch) AS e) AS s
 WHERE holdfast_jobs.id = s.k AND holdfast_jobs.attempt = s.at
   AND CASE holdfast_jobs.state WHEN 'processing' THEN TRUE ELSE FALSE END
RETURNING CAST(holdfast_jobs.id AS TEXT) AS id

-- name: held
-- brief
-- Which attempts still hold their jobs, and until when.
SELECT CAST(j.id AS TEXT) AS id, j.lease_until
  FROM (SELECT CAST(e.key AS /*id*/) AS k, CAST(e.value->>0 AS BIGINT) AS at FROM json_each(:batch) AS e) AS s
  JOIN holdfast_jobs AS j ON j.id = s.k
 WHERE j.attempt = s.at AND CASE j.state WHEN 'processing' THEN TRUE ELSE FALSE END

-- name: renew_owned
-- What a worker holds by its own name, while it cannot say itself what that is. What is being written is left alone.
-- What ran out before `since` is left to whoever takes it back: a scan over all leases walks over those that were.
UPDATE holdfast_jobs
   SET lease_until = CASE WHEN lease_until > :lease_until THEN lease_until ELSE CAST(:lease_until AS BIGINT) END
 WHERE id IN (
   SELECT id FROM holdfast_jobs
    WHERE state = 'processing' AND lease_until >= :since AND lease_owner = :owner /*skip_locked*/)
RETURNING CAST(id AS TEXT) AS id

-- name: expired
SELECT /*Claimed*/, provider, lease_until
  FROM holdfast_jobs WHERE state = 'processing' AND lease_until >= :floor AND lease_until < :now
   AND queue IN (SELECT e.key FROM json_each(:queues) AS e)
 ORDER BY lease_until LIMIT :limit /*skip_locked*/

-- name: deserted
-- Leased ahead (core/lease.py) by a worker whose last sign says that its leases are over. A worker without such a sign
-- leases nothing ahead.
SELECT /*Claimed*/, provider
  FROM holdfast_jobs
 WHERE state = 'processing' AND lease_until >= :beyond AND queue IN (SELECT e.key FROM json_each(:queues) AS e)
   AND (SELECT n.holds_until FROM holdfast_worker_signs AS n
         WHERE n.name = holdfast_jobs.lease_owner ORDER BY n.seq DESC LIMIT 1) < :now
 ORDER BY lease_until LIMIT :limit /*skip_locked*/

-- name: held_by
-- What a worker holds by its own name: after a lost answer it may hold jobs it does not know of.
SELECT /*Claimed*/, provider
  FROM holdfast_jobs WHERE state = 'processing' AND lease_until >= :since AND lease_owner = :owner /*for_update*/

-- name: overdue
SELECT /*Claimed*/, provider
  FROM holdfast_jobs
 WHERE deadline_at IS NOT NULL AND state IN ('queued', 'processing', 'waiting')
   AND deadline_at >= :floor AND deadline_at < :now
   AND queue IN (SELECT e.key FROM json_each(:queues) AS e)
 ORDER BY deadline_at LIMIT :limit /*skip_locked*/

-- name: unanswered
SELECT /*Claimed*/, provider
  FROM holdfast_jobs WHERE state = 'waiting' AND run_at >= :floor AND run_at < :now
   AND queue IN (SELECT e.key FROM json_each(:queues) AS e)
 ORDER BY run_at LIMIT :limit /*skip_locked*/
