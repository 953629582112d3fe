-- Since when jobs wait for their turn, in the order of time: where a look for them may begin. Nobody may take it for the
-- index by key, in which each key is found by itself: so only `turns.lanes` says that what waits is parked.
-- oldest: 9
-- concurrently
CREATE INDEX holdfast_jobs_waiting_turn ON holdfast_jobs (queue, priority, run_at) WHERE hold = 'turn' AND parked = 1;
