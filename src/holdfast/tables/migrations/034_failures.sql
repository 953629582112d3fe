-- Jobs by how often they have failed, for whoever sorts a list by it. Written only when something goes wrong.
-- oldest: 9
-- concurrently
CREATE INDEX holdfast_jobs_failures ON holdfast_jobs (failures, id) WHERE failures > 0;
