-- name: renew
-- brief
-- Takes the lease where its time is over, or renews it. No row: it is another's, or there is none yet.
UPDATE holdfast_keepers SET owner = :owner, lease_until = CAST(:lease_until AS BIGINT)
 WHERE /*newest holdfast_keepers :name*/ AND (owner = :owner OR lease_until < :now)
RETURNING owner

-- name: begin
-- brief
-- The first lease of that name. No row: there is one.
INSERT INTO holdfast_keepers (name, owner, lease_until)
SELECT :name, :owner, CAST(:lease_until AS BIGINT)
 WHERE NOT EXISTS (SELECT 1 FROM holdfast_keepers AS n WHERE n.name >= :name AND n.name <= :name ORDER BY n.name DESC LIMIT 1)
ON CONFLICT (name) DO NOTHING
RETURNING owner

-- name: look
-- brief
-- Backwards: the newest version of a row lies behind those that a held snapshot keeps.
SELECT owner, lease_until FROM holdfast_keepers WHERE name >= :name AND name <= :name ORDER BY name DESC LIMIT 1

-- name: release
-- brief
UPDATE holdfast_keepers SET lease_until = 0 WHERE /*newest holdfast_keepers :name*/ AND owner = :owner

-- name: owners
SELECT DISTINCT owner FROM holdfast_keepers

-- name: release_owned
UPDATE holdfast_keepers SET lease_until = 0 WHERE owner = :owner

-- name: forget
-- Leases of code that runs no more.
DELETE FROM holdfast_keepers WHERE lease_until < :before
