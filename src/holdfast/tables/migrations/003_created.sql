-- A job's row is the event of its creation: it is no longer written a second time.

DELETE FROM holdfast_job_events WHERE type = 'created';
