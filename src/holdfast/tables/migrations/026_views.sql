-- oldest: 9
-- What a system may join with its own tables: these views, and no table of the kernel's. Columns are only ever added; a
-- view that must change gets a new name beside the old one. The dead letter is asked for by itself, because SQLite reads
-- all of a view that is a join where a system joins it from the left.

CREATE VIEW holdfast_job_status AS
SELECT j.id, j.kind, j.queue, j.stage, j.state, j.provider, j.parked, j.hold, j.priority, j.owner, j.attempt, j.failures,
       j.crashes, j.epoch, j.created_at, j.updated_at, j.run_at, j.started_at, j.finished_at, j.deadline_at,
       j.last_attempt_at, j.first_failure_at, j.error,
       (SELECT d.id FROM holdfast_dead_letters AS d WHERE d.job_id = j.id) AS dead_letter_id
  FROM holdfast_jobs AS j;

CREATE VIEW holdfast_effect_status AS
SELECT key, job_id, provider, status, provider_id, sends, last_sent_at, marked_at, error_class, error
  FROM holdfast_effects;
