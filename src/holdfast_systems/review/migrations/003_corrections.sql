-- oldest: 2
-- A recipient that a correction replaced or took out stays, marked: what was sent to it, or not, is still known.
-- `budget` says for which job and epoch `sends_before` was read from the ledger: what was sent since is what this budget
-- has used. A send that costs nothing, because the provider was known to be down, is added to it.
ALTER TABLE review_recipients ADD COLUMN superseded_at BIGINT;
ALTER TABLE review_recipients ADD COLUMN superseded_by TEXT;
ALTER TABLE review_recipients ADD COLUMN budget TEXT;
ALTER TABLE review_recipients ADD COLUMN sends_before INTEGER NOT NULL DEFAULT 0;

DROP VIEW review_deliveries;

-- A mail that was sent carries no error: what went wrong before is in the job's events and calls.
CREATE VIEW review_deliveries_all AS
SELECT r.changelist_id, r.recipient, r.review_version, r.position, r.required, r.effect_key,
       CASE WHEN r.superseded_at IS NOT NULL THEN 'superseded'
            WHEN f.status IS NULL THEN 'pending'
            WHEN f.status = 'planned' AND f.error_class IS NOT NULL THEN 'retrying'
            WHEN f.status = 'planned' THEN 'pending'
            WHEN f.status = 'sent' AND f.provider_id IS NULL THEN 'unverified'
            WHEN f.status = 'review' THEN 'needs_person'
            ELSE f.status END AS status,
       f.provider_id AS notification_id, f.marked_at AS notified_at, f.provider, COALESCE(f.sends, 0) AS attempts,
       f.last_sent_at, CASE WHEN f.status = 'sent' THEN NULL ELSE f.error_class END AS error_class,
       CASE WHEN f.status = 'sent' THEN NULL ELSE f.error END AS error,
       r.superseded_at, r.superseded_by, r.budget, r.sends_before
  FROM review_recipients AS r LEFT JOIN holdfast_effects AS f ON f.key = r.effect_key;

-- Who is to be told: code that knows of no corrections mails nobody who was superseded either.
CREATE VIEW review_deliveries AS
SELECT changelist_id, recipient, review_version, position, required, effect_key, status, notification_id, notified_at,
       provider, attempts, last_sent_at, error_class, error
  FROM review_deliveries_all WHERE superseded_at IS NULL;
