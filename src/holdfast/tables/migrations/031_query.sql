-- What the query language finds by an index of its own: jobs that ended badly, and jobs that met an error. Both are written
-- only when something goes wrong, so work that goes well pays nothing for them.
-- oldest: 9
-- concurrently
CREATE INDEX holdfast_jobs_ended_badly ON holdfast_jobs (state, id) WHERE state IN ('dead', 'cancelled');
CREATE INDEX holdfast_jobs_errors ON holdfast_jobs (id) WHERE error IS NOT NULL;
