-- Every idempotency key and the review that it was answered with, also where that review was asked for under another
-- key before. `fingerprint` is of the request that came with the key.
CREATE TABLE review_keys (
  idempotency_key TEXT PRIMARY KEY,
  review_id /*id*/ NOT NULL,
  fingerprint TEXT NOT NULL,
  at BIGINT NOT NULL
);
INSERT INTO review_keys (idempotency_key, review_id, fingerprint, at)
SELECT idempotency_key, id, fingerprint, created_at FROM reviews;
