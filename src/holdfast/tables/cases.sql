-- name: lock_of_job
SELECT CAST(id AS TEXT) AS id, state, error_class, deaths, replay_stage FROM holdfast_dead_letters
 WHERE job_id = CAST(:job_id AS /*id*/) /*for_update*/

-- name: open
INSERT INTO holdfast_dead_letters (id, job_id, request_id, kind, stage, provider, state, error_class, category, retryable,
  failure_reason, attempts_made, last_error, last_stack, first_failure_at, last_failure_at, created_at, updated_at,
  original, sanitized_context, fingerprint)
VALUES (CAST(:id AS /*id*/), CAST(:job_id AS /*id*/), :request_id, :kind, :stage, :provider, :state, :error_class,
  :category, :retryable, :failure_reason, :attempts_made, :last_error, :last_stack, CAST(:first_failure_at AS BIGINT),
  CAST(:now AS BIGINT), CAST(:now AS BIGINT), CAST(:now AS BIGINT), :original, :sanitized_context, :fingerprint)
ON CONFLICT (job_id) DO UPDATE SET
  stage = excluded.stage, provider = excluded.provider, state = excluded.state, error_class = excluded.error_class,
  category = excluded.category, retryable = excluded.retryable, failure_reason = excluded.failure_reason,
  attempts_made = excluded.attempts_made, last_error = excluded.last_error, last_stack = excluded.last_stack,
  last_failure_at = excluded.last_failure_at, updated_at = excluded.updated_at,
  sanitized_context = excluded.sanitized_context, fingerprint = excluded.fingerprint, replay_stage = NULL,
  deaths = holdfast_dead_letters.deaths + 1
RETURNING CAST(id AS TEXT) AS id, deaths

-- name: context
SELECT sanitized_context FROM holdfast_dead_letters WHERE job_id = CAST(:job_id AS /*id*/)

-- name: refer
UPDATE holdfast_dead_letters SET request_id = COALESCE(:request_id, request_id), sanitized_context = :context
 WHERE job_id = CAST(:job_id AS /*id*/)

-- name: step
UPDATE holdfast_dead_letters
   SET state = :state, cause = COALESCE(:cause, cause), evidence = COALESCE(:evidence, evidence),
       notes = COALESCE(:notes, notes), replays = replays + CAST(:replays AS INTEGER), updated_at = CAST(:now AS BIGINT)
 WHERE id = CAST(:id AS /*id*/) AND state = :expected
RETURNING CAST(id AS TEXT) AS id

-- name: correct
-- The correction is the remediation, and its evidence; a cause that a person named stays.
UPDATE holdfast_dead_letters
   SET state = :state, cause = COALESCE(cause, 'data'), evidence = :evidence, replay_stage = :replay_stage,
       updated_at = CAST(:now AS BIGINT)
 WHERE id = CAST(:id AS /*id*/) AND state = :expected
RETURNING CAST(id AS TEXT) AS id

-- name: begin_at
-- A replay begins no later than at this stage, and what it returned is out of date.
UPDATE holdfast_dead_letters SET replay_stage = :stage WHERE job_id = CAST(:job_id AS /*id*/)

-- name: keep_correction
INSERT INTO holdfast_corrections (case_id, job_id, at, actor, reason, before, after)
VALUES (CAST(:case_id AS /*id*/), CAST(:job_id AS /*id*/), CAST(:now AS BIGINT), :actor, :reason, :before, :after)

-- name: corrections
SELECT at, actor, reason, before, after FROM holdfast_corrections
 WHERE job_id = CAST(:job_id AS /*id*/) ORDER BY seq

-- name: show
SELECT CAST(id AS TEXT) AS id, CAST(job_id AS TEXT) AS job_id, request_id, kind, stage, provider, state, error_class,
       category, retryable, failure_reason, attempts_made, last_error, last_stack, first_failure_at, last_failure_at,
       created_at, updated_at, original, sanitized_context, fingerprint, cause, evidence, notes, deaths, replays,
       replay_stage
  FROM holdfast_dead_letters WHERE id = CAST(:id AS /*id*/)

-- name: lock
SELECT CAST(job_id AS TEXT) AS job_id, kind, stage, state, evidence, replay_stage FROM holdfast_dead_letters
 WHERE id = CAST(:id AS /*id*/) /*for_update*/

-- name: page
SELECT CAST(id AS TEXT) AS id, CAST(job_id AS TEXT) AS job_id, request_id, kind, stage, provider, state, error_class,
       category, retryable, failure_reason, attempts_made, last_error, first_failure_at, last_failure_at, created_at,
       updated_at, fingerprint, cause, deaths, replays,
       (SELECT j.state FROM holdfast_jobs AS j WHERE j.id = holdfast_dead_letters.job_id) AS job_state
  FROM holdfast_dead_letters
 WHERE (CAST(:before AS TEXT) IS NULL OR id < CAST(:before AS /*id*/))
   AND (CAST(:state AS TEXT) IS NULL OR state = :state)
   AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
   AND (CAST(:stage AS TEXT) IS NULL OR stage = :stage)
   AND (CAST(:error_class AS TEXT) IS NULL OR error_class = :error_class)
   AND (CAST(:fingerprint AS TEXT) IS NULL OR fingerprint = :fingerprint)
 ORDER BY holdfast_dead_letters.id DESC LIMIT :limit

-- name: groups
SELECT fingerprint, kind, stage, provider, error_class, category, state, COUNT(*) AS letters,
       MIN(first_failure_at) AS first_at, MAX(last_failure_at) AS last_at, MIN(last_error) AS last_error
  FROM holdfast_dead_letters GROUP BY fingerprint, kind, stage, provider, error_class, category, state
 ORDER BY letters DESC LIMIT :limit

-- name: forget
DELETE FROM holdfast_dead_letters
 WHERE job_id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e)

-- name: forget_corrections
DELETE FROM holdfast_corrections
 WHERE job_id IN (SELECT CAST(e.key AS /*id*/) FROM json_each(:batch) AS e)
