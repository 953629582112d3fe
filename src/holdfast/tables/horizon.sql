-- name: holder @postgres
-- Whoever keeps old row versions from being removed for longest: a session with a snapshot or a transaction id, a
-- prepared transaction, a replication slot (which has no time of its own). What goes on in another database keeps nothing
-- of this one; a standby's feedback has no database and keeps rows of each. Another user's sessions are seen only with the
-- rights of pg_read_all_stats. A VACUUM that runs keeps nothing from being removed, however long it takes.
SELECT what, name, pid, open_s FROM (
  SELECT 'session' AS what, application_name AS name, pid,
         CAST(EXTRACT(EPOCH FROM clock_timestamp() - xact_start) AS DOUBLE PRECISION) AS open_s,
         GREATEST(age(backend_xid), age(backend_xmin)) AS versions
    FROM pg_stat_activity
   WHERE (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL) AND pid <> pg_backend_pid()
     AND (datname IS NULL OR datname = current_database())
     AND pid NOT IN (SELECT v.pid FROM pg_stat_progress_vacuum AS v)
   UNION ALL
  SELECT 'prepared transaction', gid, NULL,
         CAST(EXTRACT(EPOCH FROM clock_timestamp() - prepared) AS DOUBLE PRECISION), age(transaction)
    FROM pg_prepared_xacts WHERE database = current_database()
   UNION ALL
  SELECT 'replication slot', CAST(slot_name AS TEXT), active_pid, 0, GREATEST(age(xmin), age(catalog_xmin))
    FROM pg_replication_slots WHERE xmin IS NOT NULL OR catalog_xmin IS NOT NULL) AS held
 ORDER BY open_s DESC NULLS LAST, versions DESC LIMIT 1

-- name: dead_versions @postgres
-- As the statistics have it: a little behind, and free to ask.
SELECT CAST(COALESCE(SUM(n_dead_tup), 0) AS BIGINT) AS versions FROM pg_stat_user_tables
 WHERE relid IN (SELECT CAST(to_regclass(e.key) AS oid) FROM json_each(:tables) AS e)
