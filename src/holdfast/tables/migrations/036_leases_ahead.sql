-- Until when the leases of a worker hold, as its last sign of life says: what it has held for long is leased ahead in the
-- job's own row, so that this is written seldom. Code of before leaves it empty, and leases nothing ahead.
-- oldest: 9
ALTER TABLE holdfast_worker_signs ADD COLUMN holds_until BIGINT;
