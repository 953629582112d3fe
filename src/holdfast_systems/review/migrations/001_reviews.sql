-- Reviews. Times are milliseconds since the epoch, JSON is TEXT.

-- One row per changelist: its lock orders the versions, so that two requests at once cannot pass each other.
CREATE TABLE review_changelists (
  changelist_id TEXT PRIMARY KEY,
  latest_version INTEGER NOT NULL,
  updated_at BIGINT NOT NULL
);

-- `source` is for people, with credentials taken out; the job's own payload has it whole.
-- `status` is what the last end of its job said; while the job's row is there, that row says more (see reviews.py).
CREATE TABLE reviews (
  id /*id*/ PRIMARY KEY,
  changelist_id TEXT NOT NULL,
  review_version INTEGER NOT NULL CHECK (review_version >= 1),
  idempotency_key TEXT NOT NULL UNIQUE,
  fingerprint TEXT NOT NULL,
  job_id /*id*/ NOT NULL UNIQUE,
  source TEXT NOT NULL,
  title TEXT NOT NULL,
  sender TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'in_progress' CHECK (status IN ('in_progress', 'succeeded', 'failed')),
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  finished_at BIGINT,
  result TEXT,
  failed_stage TEXT,
  error_class TEXT,
  error TEXT,
  UNIQUE (changelist_id, review_version),
  CHECK ((status = 'in_progress') = (finished_at IS NULL))
);
CREATE INDEX reviews_succeeded ON reviews (status, updated_at);

-- Whom a version is to be told to, written with the review itself: before any send.
CREATE TABLE review_recipients (
  changelist_id TEXT NOT NULL,
  recipient TEXT NOT NULL,
  review_version INTEGER NOT NULL,
  position INTEGER NOT NULL,
  required SMALLINT NOT NULL CHECK (required IN (0, 1)),
  effect_key TEXT NOT NULL UNIQUE,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (changelist_id, recipient, review_version)
);

-- What a model said of one part of a change: paid for once. `chunk_sha256` tells whether it is still that part.
CREATE TABLE review_chunks (
  review_id /*id*/ NOT NULL,
  chunk_no INTEGER NOT NULL,
  chunk_sha256 TEXT NOT NULL,
  value TEXT NOT NULL,
  at BIGINT NOT NULL,
  PRIMARY KEY (review_id, chunk_no)
);

-- The delivery log: who was to be told, joined with the ledger of effects, which alone knows what was sent. There is
-- no second record to keep in step: the ledger's one write of id, time and status is the delivery's.
CREATE VIEW review_deliveries AS
SELECT r.changelist_id, r.recipient, r.review_version, r.position, r.required, r.effect_key,
       CASE WHEN f.status IS NULL THEN 'pending'
            WHEN f.status = 'planned' AND f.error_class IS NOT NULL THEN 'retrying'
            WHEN f.status = 'planned' THEN 'pending'
            WHEN f.status = 'sent' AND f.provider_id IS NULL THEN 'unverified'
            WHEN f.status = 'review' THEN 'needs_person'
            ELSE f.status END AS status,
       f.provider_id AS notification_id, f.marked_at AS notified_at, f.provider, COALESCE(f.sends, 0) AS attempts,
       f.last_sent_at, f.error_class, f.error
  FROM review_recipients AS r LEFT JOIN holdfast_effects AS f ON f.key = r.effect_key;
