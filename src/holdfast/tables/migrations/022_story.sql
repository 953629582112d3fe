-- oldest: 9
-- A worker that goes on with a job ends one attempt and claims the next in one write, and one row says both: `went_on`.
-- Whoever wants a job's story, step by step, asks this view. `part` is the order within a `seq`.

CREATE VIEW holdfast_every_event AS
SELECT seq, 0 AS part, job_id, attempt, CASE type WHEN 'went_on' THEN 'advanced' ELSE type END AS type, at, data
  FROM holdfast_job_events
 UNION ALL
SELECT seq, 1, job_id, attempt + 1, 'claimed', at, NULL FROM holdfast_job_events WHERE type = 'went_on';
