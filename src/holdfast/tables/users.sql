-- name: lock @postgres
-- Until the end of the transaction. Two users whose names hash alike only wait for each other.
SELECT pg_advisory_xact_lock(hashtext('holdfast.users'), hashtext(CAST(:name AS TEXT)))

-- name: lock @sqlite
-- brief
-- Its writers are alone anyway.
SELECT :name AS name
