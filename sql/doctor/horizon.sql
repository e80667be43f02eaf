-- Purpose: transactions, standbys with feedback, prepared transactions and replication slots that keep VACUUM from removing old
--          row versions, the oldest first. Slots and standbys have no age in seconds
-- Index: none: shared memory only
-- Locks: none
SELECT kind, name, coalesce(extract(epoch FROM clock_timestamp() - since), 0)::float8 AS seconds, xids
  FROM (SELECT CASE WHEN backend_type = 'walsender' THEN 'standby' ELSE 'transaction' END AS kind,
               format('process %s of user %s', pid, coalesce(usename::text, 'unknown')) AS name,
               xact_start AS since,
               coalesce(age(backend_xmin), age(backend_xid))::bigint AS xids
          FROM pg_stat_activity
         WHERE pid <> pg_backend_pid() AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
        UNION ALL
        SELECT 'prepared transaction', format('%s of user %s', gid, owner), prepared, age(transaction)::bigint
          FROM pg_prepared_xacts
        UNION ALL
        SELECT 'replication slot', slot_name || CASE WHEN active THEN '' ELSE ' (inactive)' END, NULL,
               greatest(age(xmin), age(catalog_xmin))::bigint
          FROM pg_replication_slots WHERE xmin IS NOT NULL OR catalog_xmin IS NOT NULL) AS holders
 ORDER BY xids DESC, seconds DESC
 LIMIT 20
