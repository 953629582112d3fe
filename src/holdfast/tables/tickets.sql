-- name: put
INSERT INTO holdfast_tickets (digest, sub, roles, expires_at) VALUES (:digest, :sub, :roles, CAST(:expires_at AS BIGINT))

-- name: redeem
-- Deleting is redeeming: of two that come at once, one gets the row.
DELETE FROM holdfast_tickets WHERE digest = :digest
RETURNING sub, roles, expires_at

-- name: prune
DELETE FROM holdfast_tickets WHERE expires_at < :now
