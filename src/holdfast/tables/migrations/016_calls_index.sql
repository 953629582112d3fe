-- oldest: 9
-- concurrently
-- Calls are read by job, and the newest first: their ids sort by time, so that the primary key finds those.

DROP INDEX holdfast_calls_recent;
