-- Search fields: what a kind of job has declared to be found by, one row for each value of each job.
-- oldest: 9

CREATE TABLE holdfast_search (
  field TEXT NOT NULL,
  value TEXT NOT NULL,
  job_id /*id*/ NOT NULL,
  PRIMARY KEY (field, value, job_id)
);
CREATE INDEX holdfast_search_job ON holdfast_search (job_id);
