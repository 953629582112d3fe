-- oldest: 9
-- A send that went well is told by its effect's row, which has all of its call: no second row is written of it. Whoever
-- wants every call asks this view. A call that was written down by itself is not told twice.

CREATE VIEW holdfast_every_call AS
SELECT id, job_id, stage, attempt, provider, started_at, duration_ms, outcome, status, error_class, cost_micros, units
  FROM holdfast_calls
 UNION ALL
SELECT CAST(f.ticket AS /*id*/), f.job_id, f.stage, f.attempt, f.provider, f.last_sent_at, f.marked_at - f.last_sent_at,
       'ok', CAST(NULL AS INTEGER), CAST(NULL AS TEXT), 0, CAST(NULL AS TEXT)
  FROM holdfast_effects AS f
 WHERE f.status = 'sent' AND f.ticket IS NOT NULL AND f.marked_at IS NOT NULL
   AND (f.sender IS NULL OR f.sender = f.job_id)
   AND NOT EXISTS (SELECT 1 FROM holdfast_calls AS c WHERE c.id = CAST(f.ticket AS /*id*/));

-- Of an effect's two versions the second fits into the page of the first only where more than half of the page is left
-- for it: then it is short in the log and locks nothing on its way (1.41 -> 1.03 KB for three marks).

-- @postgres
ALTER TABLE holdfast_effects SET (fillfactor = 45);
