-- oldest: 9
-- An effect is written twice: when its send begins and when it is marked. Room in its page keeps both versions there, and
-- the second one short in the log. Its token is a hash of its key, which is the primary key: an index of its own on the
-- token found nothing that the key's does not, and was the largest of the table. (SQLite cannot drop it.)

-- @postgres
ALTER TABLE holdfast_effects SET (
  fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0
);

-- @postgres
ALTER TABLE holdfast_effects DROP CONSTRAINT holdfast_effects_token_key;
