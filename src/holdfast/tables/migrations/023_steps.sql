-- oldest: 9
-- What a job's row shows is not written as an event as well: neither its last claim nor its success. An event that ends an
-- attempt shows when that was claimed. Whoever wants a job's story, step by step, asks the view. A step without an event of
-- its own comes after the last event before it: `part` is 1 for a claim, 2 for a success, and 0 for what was written.

ALTER TABLE holdfast_job_events ADD COLUMN claimed_at BIGINT;

DROP VIEW holdfast_every_event;

CREATE VIEW holdfast_every_event AS
SELECT seq, 0 AS part, job_id, attempt, CASE type WHEN 'went_on' THEN 'advanced' ELSE type END AS type, at,
       CASE type WHEN 'succeeded' THEN NULL ELSE data END AS data
  FROM holdfast_job_events
 UNION ALL
-- Claims by those who went on with a job, before this step.
SELECT seq, 1, job_id, attempt + 1, 'claimed', at, CAST(NULL AS TEXT) FROM holdfast_job_events WHERE type = 'went_on'
 UNION ALL
-- Claims of attempts that have ended.
SELECT COALESCE((SELECT MAX(p.seq) FROM holdfast_job_events AS p
                  WHERE p.job_id = e.job_id AND p.attempt < e.attempt AND p.type <> 'stale'), 0),
       1, e.job_id, e.attempt, 'claimed', e.claimed_at, CAST(NULL AS TEXT)
  FROM holdfast_job_events AS e
 WHERE e.claimed_at IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM holdfast_job_events AS c
                    WHERE c.job_id = e.job_id AND ((c.type = 'claimed' AND c.attempt = e.attempt)
                                                   OR (c.type = 'went_on' AND c.attempt = e.attempt - 1)))
 UNION ALL
-- The last claim of a job, while no event shows it.
SELECT COALESCE((SELECT MAX(p.seq) FROM holdfast_job_events AS p
                  WHERE p.job_id = j.id AND p.attempt < j.attempt AND p.type <> 'stale'), 0),
       1, j.id, j.attempt, 'claimed', j.last_attempt_at, CAST(NULL AS TEXT)
  FROM holdfast_jobs AS j
 WHERE j.attempt > 0
   AND NOT EXISTS (SELECT 1 FROM holdfast_job_events AS c
                    WHERE c.job_id = j.id AND ((c.attempt = j.attempt AND (c.type = 'claimed' OR c.claimed_at IS NOT NULL))
                                               OR (c.attempt = j.attempt - 1 AND c.type = 'went_on')))
 UNION ALL
-- A success that no event shows.
SELECT COALESCE((SELECT MAX(p.seq) FROM holdfast_job_events AS p
                  WHERE p.job_id = j.id AND p.type <> 'stale'
                    AND (p.attempt < j.attempt OR p.type IN ('claimed', 'progress', 'waiting'))), 0),
       2, j.id, j.attempt, 'succeeded', j.finished_at, CAST(NULL AS TEXT)
  FROM holdfast_jobs AS j
 WHERE j.state = 'succeeded'
   AND NOT EXISTS (SELECT 1 FROM holdfast_job_events AS e
                    WHERE e.job_id = j.id AND e.attempt = j.attempt AND e.type = 'succeeded')
 UNION ALL
-- Code from before this step that ends an attempt does not say when it was claimed, and its next claim covers what the
-- row showed: the first event of such an attempt stands for its claim as well.
SELECT COALESCE((SELECT MAX(p.seq) FROM holdfast_job_events AS p
                  WHERE p.job_id = e.job_id AND p.attempt < e.attempt AND p.type <> 'stale'), 0),
       1, e.job_id, e.attempt, 'claimed', e.at, CAST(NULL AS TEXT)
  FROM holdfast_job_events AS e
  JOIN holdfast_jobs AS j ON j.id = e.job_id AND j.attempt > e.attempt
 WHERE e.attempt > 0 AND e.claimed_at IS NULL AND e.type NOT IN ('claimed', 'stale')
   AND NOT EXISTS (SELECT 1 FROM holdfast_job_events AS c
                    WHERE c.job_id = e.job_id AND ((c.attempt = e.attempt AND (c.type = 'claimed' OR c.claimed_at IS NOT NULL))
                                                   OR (c.attempt = e.attempt - 1 AND c.type = 'went_on')
                                                   OR (c.attempt = e.attempt AND c.seq < e.seq AND c.type <> 'stale')));

-- A job's row is written two times more after its insert. Where its page has room for them they are written as differences,
-- and nothing is locked on the way.

-- @postgres
ALTER TABLE holdfast_jobs SET (fillfactor = 45);
