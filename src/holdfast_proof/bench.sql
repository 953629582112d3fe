-- name: ping
SELECT 1 AS one

-- name: durability @postgres
SELECT current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS synchronous_commit

-- name: durability @sqlite
SELECT CASE synchronous WHEN 0 THEN 'off' ELSE 'on' END AS fsync,
       CASE WHEN synchronous < 2 THEN 'off' ELSE 'on' END AS synchronous_commit FROM pragma_synchronous
