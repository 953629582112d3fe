-- name: set_priority
-- It comes back as what has just come due does, so that every claim sees it in its new lane. What is parked keeps its place
-- among the parked.
UPDATE holdfast_jobs
   SET priority = CAST(:priority AS SMALLINT),
       is_due = CASE WHEN state = 'queued' AND parked = 0 THEN 0 ELSE is_due END,
       run_at = CASE WHEN state = 'queued' AND parked = 0 AND run_at < :now THEN CAST(:now AS BIGINT) ELSE run_at END
 WHERE id = CAST(:id AS /*id*/) AND state IN ('queued', 'processing', 'waiting')
RETURNING queue

-- name: run_now
UPDATE holdfast_jobs SET run_at = CAST(:now AS BIGINT), is_due = CASE parked WHEN 0 THEN 0 ELSE is_due END
 WHERE id = CAST(:id AS /*id*/) AND state = 'queued' AND run_at > :now AND (not_before IS NULL OR not_before <= :now)
RETURNING queue

-- name: remove
-- A job that has ended, that nobody waits for, and whose dead letter, if it has one, asks for nothing more.
DELETE FROM holdfast_jobs
 WHERE id = CAST(:id AS /*id*/) AND join_id IS NULL
   AND (state IN ('succeeded', 'cancelled') OR (state = 'dead' AND EXISTS (
        SELECT 1 FROM holdfast_dead_letters AS d WHERE d.job_id = CAST(:id AS /*id*/) AND d.state = 'resolved')))
RETURNING CAST(id AS TEXT) AS id
