-- Credentials of addresses that users gave, apart from the jobs and rows that refer to them.
-- oldest: 9

CREATE TABLE holdfast_secrets (
  owner     TEXT NOT NULL,
  number    INTEGER NOT NULL,
  sealed    TEXT NOT NULL,
  sealed_at BIGINT NOT NULL,
  PRIMARY KEY (owner, number)
);
