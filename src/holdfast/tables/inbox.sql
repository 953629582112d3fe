-- name: accept
INSERT INTO holdfast_inbox (consumer, message_id, fingerprint, received_at)
VALUES (:consumer, :message_id, :fingerprint, CAST(:now AS BIGINT))
ON CONFLICT DO NOTHING
RETURNING message_id

-- name: prune
DELETE FROM holdfast_inbox WHERE (consumer, message_id) IN (
  SELECT consumer, message_id FROM holdfast_inbox WHERE received_at >= :floor AND received_at < :before
   ORDER BY received_at LIMIT :limit)
RETURNING message_id, received_at
