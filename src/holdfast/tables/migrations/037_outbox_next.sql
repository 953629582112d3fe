-- What is pending, under a condition that nothing else implies: with `status = 'pending'` the planner was free to take the
-- index of an aggregate's order for it, from its left end, whenever statistics were taken while nothing was pending. Code of
-- before does that now, which is a sort of what is pending.
-- oldest: 9
-- concurrently
CREATE INDEX holdfast_outbox_next ON holdfast_outbox (available_at, seq) WHERE CASE WHEN status = 'pending' THEN TRUE ELSE FALSE END;
DROP INDEX holdfast_outbox_pending;
