-- When the last child of a join ended, in a column of its own that the database computes, so that code of before writes it as
-- well. No index looks at `unended` any more: a commit that counts children down leaves a version on the row's page and in
-- no index. The table, a row for each gather of a job that is kept, is written anew once.
-- oldest: 9

-- @postgres
ALTER TABLE holdfast_joins
  ADD COLUMN ended_at BIGINT GENERATED ALWAYS AS (CASE WHEN unended = 0 THEN updated_at END) STORED;

-- @sqlite
ALTER TABLE holdfast_joins
  ADD COLUMN ended_at BIGINT GENERATED ALWAYS AS (CASE WHEN unended = 0 THEN updated_at END) VIRTUAL;

CREATE INDEX holdfast_joins_ended ON holdfast_joins (ended_at) WHERE state = 'sealed' AND ended_at IS NOT NULL;
DROP INDEX holdfast_joins_ready;
