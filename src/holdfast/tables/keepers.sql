-- name: take
-- brief
-- Takes the lease where nobody has it or its time is over, or renews it. No row: it is another's.
INSERT INTO holdfast_keepers (name, owner, lease_until) VALUES (:name, :owner, CAST(:lease_until AS BIGINT))
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, lease_until = excluded.lease_until
 WHERE holdfast_keepers.owner = excluded.owner OR holdfast_keepers.lease_until < :now
RETURNING owner

-- name: look
-- brief
-- Backwards: the newest version of a row lies behind those that a held snapshot keeps.
SELECT owner, lease_until FROM holdfast_keepers WHERE name >= :name AND name <= :name ORDER BY name DESC LIMIT 1

-- name: release
-- brief
UPDATE holdfast_keepers SET lease_until = 0 WHERE name = :name AND owner = :owner

-- name: owners
SELECT DISTINCT owner FROM holdfast_keepers

-- name: release_owned
UPDATE holdfast_keepers SET lease_until = 0 WHERE owner = :owner

-- name: forget
-- Leases of code that runs no more.
DELETE FROM holdfast_keepers WHERE lease_until < :before
