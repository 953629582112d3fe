-- Held jobs in the order in which they were parked, dead letters in that in which they came to their state, old messages
-- and keys by their age: scans that begin at a floor need an index in which nothing enters below it.
-- oldest: 9
-- concurrently

CREATE INDEX holdfast_jobs_held ON holdfast_jobs (provider, updated_at) WHERE state = 'queued' AND parked = 1;
DROP INDEX holdfast_jobs_parked;
CREATE INDEX holdfast_dead_letters_since ON holdfast_dead_letters (state, updated_at);
CREATE INDEX holdfast_inbox_age ON holdfast_inbox (received_at);
CREATE INDEX holdfast_idempotency_age ON holdfast_idempotency (created_at);
CREATE INDEX holdfast_outbox_order ON holdfast_outbox (aggregate_id, seq) WHERE status NOT IN ('published', 'failed');
DROP INDEX holdfast_outbox_aggregate;
