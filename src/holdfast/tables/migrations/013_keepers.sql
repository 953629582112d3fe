-- One process at a time does the sweeps for all of a deployment: who, and until when unless it renews.
-- A worker says whether it heeds rings that are addressed to one of many.

-- oldest: 10

CREATE TABLE holdfast_keepers (
  name        TEXT PRIMARY KEY,
  owner       TEXT NOT NULL,
  lease_until BIGINT NOT NULL
);

ALTER TABLE holdfast_workers ADD COLUMN heeds SMALLINT NOT NULL DEFAULT 0 CHECK (heeds IN (0, 1));
