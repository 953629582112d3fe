-- What retention looks for, oldest first, without reading what it keeps.

CREATE INDEX grading_jobs_finished ON grading_jobs (finished_at) WHERE finished_at IS NOT NULL;
