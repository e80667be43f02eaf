-- Purpose: version and settings of the server, and settings and rights of this session, in one round trip
-- Index: none: settings and catalog functions
-- Locks: none
SELECT current_setting('server_version_num')::int                       AS version_num,
       current_setting('server_version')                                AS version,
       pg_is_in_recovery()                                              AS standby,
       current_setting('transaction_read_only')::boolean                AS read_only,
       pg_encoding_to_char(d.encoding)::text                            AS encoding,
       current_setting('fsync')::boolean                                AS fsync,
       current_setting('full_page_writes')::boolean                     AS full_page_writes,
       current_setting('synchronous_commit')                            AS synchronous_commit,
       current_setting('autovacuum')::boolean
         AND current_setting('track_counts')::boolean                   AS autovacuum,
       current_setting('idle_session_timeout')                          AS idle_session_timeout,
       pg_has_role('pg_read_all_stats', 'USAGE')                        AS sees_all_sessions
  FROM pg_database d WHERE d.datname = current_database()
