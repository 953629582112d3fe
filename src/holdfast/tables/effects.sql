-- name: plan
INSERT INTO holdfast_effects (key, token, job_id, kind, stage, provider, provider_class, status, epoch, attempt,
                              created_at, updated_at)
SELECT e.key, e.value->>0, CAST(e.value->>1 AS /*id*/), e.value->>2, e.value->>3, e.value->>4, e.value->>5, 'planned',
       CAST(e.value->>6 AS INTEGER), CAST(e.value->>7 AS BIGINT), CAST(:now AS BIGINT), CAST(:now AS BIGINT)
  FROM json_each(:batch) AS e
 WHERE NOT EXISTS (SELECT 1 FROM holdfast_effects AS f WHERE f.key = e.value->>8)
ON CONFLICT (key) DO NOTHING

-- name: begin_new
-- Plans and begins in one insert, where nobody has written of the effect yet: most sends are the first of their key.
-- Guarded as `plan` is (by the former spelling) and as `begin` is (by the lease). What does not come back goes the
-- long way: `plan`, `lock`, `begin`. So does everything if somebody writes of the same effect at this moment, which is
-- an error: ON CONFLICT would confirm each row in the log by a record of its own.
INSERT INTO holdfast_effects (key, token, job_id, kind, stage, provider, provider_class, status, epoch, attempt,
                              created_at, updated_at, sends, sender, ticket, first_sent_at, last_sent_at)
SELECT e.key, e.value->>0, j.id, e.value->>2, e.value->>3, e.value->>4, e.value->>5, 'sending',
       CAST(e.value->>6 AS INTEGER), CAST(e.value->>7 AS BIGINT), CAST(:now AS BIGINT), CAST(:now AS BIGINT), 1, j.id,
       e.value->>9, CAST(:now AS BIGINT), CAST(:now AS BIGINT)
  FROM json_each(:batch) AS e JOIN holdfast_jobs AS j ON j.id = CAST(e.value->>1 AS /*id*/)
 WHERE j.attempt = CAST(e.value->>7 AS BIGINT) AND CASE j.state WHEN 'processing' THEN TRUE ELSE FALSE END
   AND NOT EXISTS (SELECT 1 FROM holdfast_effects AS f WHERE f.key = e.key)
   AND NOT EXISTS (SELECT 1 FROM holdfast_effects AS f WHERE f.key = e.value->>8)
RETURNING key

-- name: lock
-- `sender` was not written by earlier releases: then the job that planned the effect is taken for it.
SELECT key, token, status, provider, provider_id, epoch, sends, first_sent_at, last_sent_at, error_class, error,
       CAST(job_id AS TEXT) AS job_id, attempt, ticket, marked_at, kind,
       CAST(COALESCE(sender, job_id) AS TEXT) AS sender,
       EXISTS (SELECT 1 FROM holdfast_jobs AS j
                WHERE j.id = COALESCE(holdfast_effects.sender, holdfast_effects.job_id)
                  AND j.attempt = holdfast_effects.attempt
                  AND CASE j.state WHEN 'processing' THEN TRUE ELSE FALSE END) AS is_held
  FROM holdfast_effects WHERE key IN (SELECT e.key FROM json_each(:keys) AS e) ORDER BY key /*for_update*/

-- name: begin
-- Written and committed before the send, and only by the attempt that holds the job's lease. Fenced by `sends` too: a
-- key may belong to several jobs, and what was decided about a row that somebody has sent since is decided again.
UPDATE holdfast_effects
   SET status = 'sending', sends = sends + 1, sender = CAST(e.value->>0 AS /*id*/),
       attempt = CAST(e.value->>1 AS BIGINT),
       epoch = CAST(e.value->>2 AS INTEGER), ticket = e.value->>4,
       first_sent_at = COALESCE(first_sent_at, CAST(:now AS BIGINT)), last_sent_at = CAST(:now AS BIGINT),
       provider_id = NULL, marked_at = NULL, error_class = NULL, error = NULL, updated_at = CAST(:now AS BIGINT)
  FROM json_each(:batch) AS e
 WHERE holdfast_effects.key = e.key AND sends = CAST(e.value->>3 AS INTEGER)
   AND EXISTS (SELECT 1 FROM holdfast_jobs AS j
                WHERE j.id = CAST(e.value->>0 AS /*id*/) AND j.attempt = CAST(e.value->>1 AS BIGINT)
                  AND CASE j.state WHEN 'processing' THEN TRUE ELSE FALSE END)
RETURNING holdfast_effects.key, sends

-- name: mark
-- One write sets id, time and status. Fenced by the job and the attempt that sent: a later sender's row is not touched.
-- A row that was handed to a person meanwhile, or thought unsent, is marked too: now there is evidence.
UPDATE holdfast_effects
   SET status = 'sent', provider_id = e.value->>2, marked_at = CAST(:now AS BIGINT), updated_at = CAST(:now AS BIGINT),
       error_class = NULL, error = NULL
  FROM json_each(:batch) AS e
 WHERE holdfast_effects.key = e.key AND COALESCE(sender, job_id) = CAST(e.value->>0 AS /*id*/)
   AND attempt = CAST(e.value->>1 AS BIGINT)
   AND status IN ('sending', 'unknown', 'review', 'planned')
RETURNING holdfast_effects.key, CASE WHEN sender IS NULL OR sender = job_id THEN ticket END AS ticket

-- name: backfill
-- The provider has it: what the lookup found stands, whoever sent it. `was`: the id that the row had when it was asked.
-- What is not known from its own send tells of no call.
UPDATE holdfast_effects
   SET status = 'sent', provider_id = :provider_id, marked_at = CAST(:now AS BIGINT), updated_at = CAST(:now AS BIGINT),
       ticket = NULL
 WHERE key = :key AND (status IN ('sending', 'unknown', 'review') OR (status = 'sent' AND provider_id IS NULL)
                       OR provider_id = CAST(:was AS TEXT))
RETURNING key

-- name: refuse
-- The last send that began failed: back to planned, to unknown, or failed for good.
UPDATE holdfast_effects
   SET status = e.value->>3, error_class = e.value->>4, error = e.value->>5, updated_at = CAST(:now AS BIGINT)
  FROM json_each(:batch) AS e
 WHERE holdfast_effects.key = e.key AND COALESCE(sender, job_id) = CAST(e.value->>0 AS /*id*/)
   AND attempt = CAST(e.value->>1 AS BIGINT)
   AND sends = CAST(e.value->>2 AS INTEGER) AND status = 'sending'
RETURNING holdfast_effects.key

-- name: ask
UPDATE holdfast_effects
   SET status = 'review', error = :error, updated_at = CAST(:now AS BIGINT)
 WHERE key = :key AND (status IN ('sending', 'unknown', 'review') OR (status = 'sent' AND provider_id IS NULL)
                       OR provider_id = CAST(:was AS TEXT))
RETURNING key

-- name: answer
-- A person's word about an effect nobody else can know of.
UPDATE holdfast_effects
   SET status = :status, provider_id = :provider_id, updated_at = CAST(:now AS BIGINT), ticket = NULL,
       marked_at = CASE WHEN CAST(:status AS TEXT) = 'sent' THEN CAST(:now AS BIGINT) END
 WHERE key = :key AND status IN ('review', 'unknown', 'sending')
RETURNING key

-- name: unsent
-- The provider does not have it and will not get it from an earlier send: the next one is the first again. Fenced by
-- `sends`: nobody has sent since; and by the id, if it had one: nobody has marked it since.
UPDATE holdfast_effects
   SET status = 'planned', provider_id = NULL, marked_at = NULL, first_sent_at = NULL,
       updated_at = CAST(:now AS BIGINT), error = COALESCE(error, 'The provider has no record of it.')
 WHERE key = :key AND sends = :sends
   AND (status IN ('sending', 'unknown') OR (status = 'sent' AND provider_id IS NULL)
        OR provider_id = CAST(:was AS TEXT))
RETURNING key

-- name: hand_over
-- What a finished job turns out not to have brought about is another job's to do, and to answer for.
UPDATE holdfast_effects SET job_id = CAST(:to_job AS /*id*/), updated_at = CAST(:now AS BIGINT)
 WHERE job_id = CAST(:from_job AS /*id*/) AND status = 'planned'

-- name: in_doubt
SELECT f.key, f.token, f.status, f.provider, f.provider_id, f.epoch, f.sends, f.first_sent_at, f.last_sent_at,
       f.error_class, f.error, CAST(f.job_id AS TEXT) AS job_id, f.attempt, f.ticket, f.marked_at, f.kind,
       CAST(COALESCE(f.sender, f.job_id) AS TEXT) AS sender, FALSE AS is_held, f.updated_at
  FROM holdfast_effects AS f
 WHERE (f.status IN ('sending', 'unknown') OR (f.status = 'sent' AND f.provider_id IS NULL))
   AND f.updated_at >= :floor AND f.updated_at <= :before
   AND NOT EXISTS (SELECT 1 FROM holdfast_jobs AS j
                    WHERE j.id IN (f.job_id, f.sender) AND j.state IN ('processing', 'queued'))
 ORDER BY f.updated_at LIMIT :limit

-- name: sample
-- What jobs from `first_job` on have marked as sent. Ids of jobs sort by time, and `scan` rows are looked at: flat in cost.
SELECT f.key, f.token, f.status, f.provider, f.provider_id, f.epoch, f.sends, f.first_sent_at, f.last_sent_at,
       f.error_class, f.error, CAST(f.job_id AS TEXT) AS job_id, f.attempt, f.ticket, f.marked_at, f.kind,
       CAST(COALESCE(f.sender, f.job_id) AS TEXT) AS sender, FALSE AS is_held
  FROM (SELECT * FROM holdfast_effects WHERE job_id >= CAST(:first_job AS /*id*/) ORDER BY job_id LIMIT :scan) AS f
 WHERE f.status = 'sent' AND f.provider_id IS NOT NULL AND f.provider = :provider
 ORDER BY f.job_id, f.key LIMIT :limit

-- name: page
-- Everything that is marked as sent with an id, in the order of its keys.
SELECT f.key, f.token, f.status, f.provider, f.provider_id, f.epoch, f.sends, f.first_sent_at, f.last_sent_at,
       f.error_class, f.error, CAST(f.job_id AS TEXT) AS job_id, f.attempt, f.ticket, f.marked_at, f.kind,
       CAST(COALESCE(f.sender, f.job_id) AS TEXT) AS sender, FALSE AS is_held
  FROM holdfast_effects AS f
 WHERE f.key > :after AND f.status = 'sent' AND f.provider_id IS NOT NULL AND f.provider = :provider
 ORDER BY f.key LIMIT :limit

-- name: stage_of
SELECT stage FROM holdfast_effects WHERE key = :key

-- name: of_job
SELECT key, stage, provider, provider_class, status, provider_id, sends, first_sent_at, last_sent_at, marked_at,
       error_class, error
  FROM holdfast_effects WHERE job_id = CAST(:job_id AS /*id*/) ORDER BY created_at, key

-- name: count
SELECT provider, provider_class, status, COUNT(*) AS effects FROM holdfast_effects GROUP BY provider, provider_class, status
