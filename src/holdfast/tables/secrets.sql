-- name: put
INSERT INTO holdfast_secrets (owner, number, sealed, sealed_at)
SELECT e.value->>0, CAST(e.value->>1 AS INTEGER), e.value->>2, CAST(:now AS BIGINT)
  FROM json_each(:batch) AS e WHERE TRUE
ON CONFLICT (owner, number) DO NOTHING

-- name: of_owners
SELECT owner, number, sealed FROM holdfast_secrets WHERE owner IN (SELECT e.key FROM json_each(:batch) AS e)

-- name: forget
DELETE FROM holdfast_secrets WHERE owner IN (SELECT e.key FROM json_each(:batch) AS e)
