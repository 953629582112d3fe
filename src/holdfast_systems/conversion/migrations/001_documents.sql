-- The documents. Times are milliseconds since the epoch. The job of the same id is the truth about its state; what
-- stands here is what the job does not know, and what must outlive it.

CREATE TABLE conversion_documents (
  id /*id*/ PRIMARY KEY,
  owner TEXT NOT NULL,
  filename TEXT NOT NULL,
  source TEXT NOT NULL UNIQUE,
  size BIGINT NOT NULL,
  sha256 TEXT NOT NULL,
  priority SMALLINT NOT NULL,
  webhook_url TEXT,
  created_at BIGINT NOT NULL,
  queued_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  finished_at BIGINT,
  outcome TEXT CHECK (outcome IN ('complete', 'failed', 'expired', 'cancelled')),
  attempts INTEGER NOT NULL DEFAULT 0,
  error_code TEXT,
  error_message TEXT,
  result_size BIGINT,
  result_sha256 TEXT,
  expires_at BIGINT,
  source_until BIGINT,
  source_gone SMALLINT NOT NULL DEFAULT 0 CHECK (source_gone IN (0, 1)),
  CHECK ((outcome IS NULL) = (finished_at IS NULL)),
  CHECK ((error_code IS NULL) = (error_message IS NULL)),
  CHECK (outcome IS NULL OR outcome <> 'complete' OR (result_sha256 IS NOT NULL AND expires_at IS NOT NULL))
);
CREATE INDEX conversion_documents_owner ON conversion_documents (owner, id);
CREATE INDEX conversion_documents_rate ON conversion_documents (owner, created_at);
CREATE INDEX conversion_documents_expiry ON conversion_documents (expires_at) WHERE outcome = 'complete';
CREATE INDEX conversion_documents_source ON conversion_documents (source_until)
  WHERE source_until IS NOT NULL AND source_gone = 0;
CREATE INDEX conversion_documents_finished ON conversion_documents (finished_at) WHERE finished_at IS NOT NULL;

-- One row per user: its lock makes the limits of one user exact, whoever uploads at the same moment.
CREATE TABLE conversion_owners (
  owner TEXT PRIMARY KEY,
  seen_at BIGINT NOT NULL
);
