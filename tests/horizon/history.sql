-- Everything that a great many jobs leave behind: each goes through all its states, and the even ones are pruned. The
-- odd ones stay, ended, and of their dead letters the newest sixty. `:n` is how many after how many others (`:first`),
-- `:even` and `:odd` when the first of each was created.
CREATE TEMPORARY TABLE made AS
SELECT n, n % 2 = 0 AS goes, at,
       CAST(substr(h, 1, 8) || '-' || substr(h, 9, 4) || '-7000-8000-' || lpad(to_hex(n), 12, '0') AS uuid) AS id
  FROM (SELECT n, at, lpad(to_hex(at), 12, '0') AS h
          FROM (SELECT n, CASE WHEN n % 2 = 0 THEN :even ELSE :odd END + n AS at FROM generate_series(:first + 1, :first + :n) AS n) AS a) AS b;

INSERT INTO holdfast_jobs (id, kind, queue, stage, provider, priority, run_at, is_due, created_at, updated_at, deadline_at,
                           payload)
SELECT id, 'flat.call', 'flat', 'ask', 'api', 2, at, 0, at, at, at + 70000, '""' FROM made ORDER BY n;
UPDATE holdfast_jobs SET is_due = 1
 WHERE id IN (SELECT id FROM made);
UPDATE holdfast_jobs SET parked = 1, hold = 'breaker'
 WHERE id IN (SELECT id FROM made);
UPDATE holdfast_jobs SET parked = 1, hold = 'pause'
 WHERE id IN (SELECT id FROM made);
UPDATE holdfast_jobs SET parked = 0, hold = NULL
 WHERE id IN (SELECT id FROM made);
UPDATE holdfast_jobs SET state = 'processing', attempt = 1, lease_owner = 'w', lease_until = created_at + 60000,
       last_attempt_at = created_at
 WHERE id IN (SELECT id FROM made);
UPDATE holdfast_jobs SET state = 'waiting', lease_owner = NULL, lease_until = NULL, wait_key = CAST(id AS TEXT)
 WHERE id IN (SELECT id FROM made);
UPDATE holdfast_jobs SET state = 'succeeded', wait_key = NULL, finished_at = created_at + 80000
 WHERE id IN (SELECT id FROM made);
INSERT INTO holdfast_job_events (job_id, attempt, type, at)
SELECT id, 1, type, at FROM made CROSS JOIN (VALUES ('claimed'), ('succeeded')) AS t(type) ORDER BY n;

INSERT INTO holdfast_outbox (id, aggregate_id, destination, message_type, payload, created_at, available_at)
SELECT id, CAST(id AS TEXT), 'there', 'told', '{}', at, at FROM made ORDER BY n;
UPDATE holdfast_outbox SET lease_token = 't', lease_until = created_at + 30000
 WHERE id IN (SELECT id FROM made);
UPDATE holdfast_outbox SET lease_token = NULL, lease_until = NULL, status = 'published', processed_at = created_at
 WHERE id IN (SELECT id FROM made);

INSERT INTO holdfast_effects (key, token, job_id, kind, stage, provider, provider_class, status, created_at, updated_at)
SELECT CAST(id AS TEXT), CAST(id AS TEXT), id, 'flat.call', 'ask', 'api', 'token', 'planned', at, at FROM made ORDER BY n;
UPDATE holdfast_effects SET status = 'sending', sends = 1
 WHERE job_id IN (SELECT id FROM made);
UPDATE holdfast_effects SET status = 'sent', provider_id = key, marked_at = updated_at
 WHERE job_id IN (SELECT id FROM made);

INSERT INTO holdfast_dead_letters (id, job_id, kind, stage, state, error_class, category, retryable, failure_reason,
                                   attempts_made, last_error, last_stack, first_failure_at, last_failure_at, created_at,
                                   updated_at, original, sanitized_context, fingerprint)
SELECT id, id, 'flat.call', 'ask', 'open', 'BAD', 'validation', 0, 'permanent', 1, '', '', at, at, at, at, '{}', '{}', 'f'
  FROM made ORDER BY n;
UPDATE holdfast_dead_letters SET state = 'triaged', updated_at = updated_at + 1
 WHERE job_id IN (SELECT id FROM made);
UPDATE holdfast_dead_letters SET state = 'replayed', updated_at = updated_at + 1
 WHERE job_id IN (SELECT id FROM made);

INSERT INTO holdfast_inbox (consumer, message_id, fingerprint, received_at)
SELECT 'c', CAST(id AS TEXT), '', at FROM made ORDER BY n;
INSERT INTO holdfast_idempotency (scope, key, fingerprint, status, body, created_at)
SELECT 's', CAST(id AS TEXT), '', 200, '', at FROM made ORDER BY n;
INSERT INTO holdfast_calls (id, job_id, stage, attempt, provider, started_at, duration_ms, outcome)
SELECT id, id, 'ask', 1, 'api', at, 1, 'ok' FROM made ORDER BY n;
INSERT INTO holdfast_answers (job_id, stage, epoch, run, at) SELECT id, 'ask', 0, '1', at FROM made ORDER BY n;

INSERT INTO holdfast_provider_use (name, seq, state, recent, places, ramp, ramp_at)
SELECT 'api', 0, '{}', '[]', '{}', 0, 0 WHERE NOT EXISTS (SELECT 1 FROM holdfast_provider_use);
INSERT INTO holdfast_keepers (name, owner, lease_until) VALUES ('flat', 'w', 0) ON CONFLICT (name) DO NOTHING;
INSERT INTO holdfast_workers (name, queues, started_at, seen_at, declared) VALUES ('w', 'flat', 0, 0, '{}'), ('x', 'flat', 0, 0, '{}')
ON CONFLICT (name) DO NOTHING;
-- the same row written again and again, by every call of a provider; those that the clock writes: test_own_versions.py
DO $$ BEGIN SET LOCAL enable_seqscan = off; FOR i IN 1..:n LOOP UPDATE holdfast_provider_use SET seq = seq + 1, tokens_at = i WHERE name = 'api' AND seq = (SELECT n.seq FROM holdfast_provider_use AS n WHERE n.name = 'api' ORDER BY n.seq DESC LIMIT 1); END LOOP; END $$;

DELETE FROM holdfast_answers;
DELETE FROM holdfast_dead_letters WHERE job_id IN (SELECT id FROM made WHERE goes OR n <= :first + :n - 120);
DELETE FROM holdfast_jobs WHERE id IN (SELECT id FROM made WHERE goes);
DELETE FROM holdfast_job_events WHERE job_id IN (SELECT id FROM made WHERE goes);
DELETE FROM holdfast_outbox WHERE id IN (SELECT id FROM made WHERE goes);
DELETE FROM holdfast_inbox WHERE message_id IN (SELECT CAST(id AS TEXT) FROM made WHERE goes);
DELETE FROM holdfast_idempotency WHERE key IN (SELECT CAST(id AS TEXT) FROM made WHERE goes);
DELETE FROM holdfast_calls WHERE id IN (SELECT id FROM made WHERE goes);
DROP TABLE made
