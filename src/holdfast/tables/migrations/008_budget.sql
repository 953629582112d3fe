-- oldest: 4
-- What a job has spent besides the failures of its stage (JSON, see core/budget.py); NULL while nothing has gone wrong.
-- And the calls of a provider's last minute, as pairs of a time and a number.

ALTER TABLE holdfast_jobs ADD COLUMN tally TEXT;

ALTER TABLE holdfast_breakers ADD COLUMN recent TEXT NOT NULL DEFAULT '[]';
