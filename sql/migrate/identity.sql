-- Purpose: the id of this installation, the place where workers served it, and the place where it is now; fails with 42883 in
--          an older schema
-- Index: installation_pkey
-- Locks: none
SELECT i.id::text, i.served_at IS NOT NULL, coalesce(i.server, 0), coalesce(i.database::bigint, 0), coalesce(i.timeline, 0),
       coalesce(i.here_server, 0), i.here_database::bigint, coalesce(i.here_timeline, 0), coalesce(i.copied_from::text, ''), i.adopting
  FROM oarlock.identity() i
