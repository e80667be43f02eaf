-- Purpose: how many connections a pooler has lent to this user in this database. A session that came past the pooler comes from
-- another address. From the pooler's own host it counts as one of the pool: the size that is advised is then too large, never too small.
-- Index: none
-- Locks: none
SELECT count(*)
  FROM pg_stat_activity a
 WHERE a.usename = session_user AND a.datname = current_database() AND a.backend_type = 'client backend'
   AND a.client_addr IS NOT DISTINCT FROM inet_client_addr()
