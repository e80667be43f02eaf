-- Purpose: deletes what came back to lanes since the time before and every worker has seen, a batch of it. Says what has been seen by now, and whether there is more
-- Index: returns_pkey, from the time before on
-- Locks: those rows
WITH old AS MATERIALIZED (
    SELECT o.ctid FROM (
        SELECT r.ctid, r.xid FROM oarlock.returns r WHERE r.xid >= pg_snapshot_xmax(@earlier::pg_snapshot)
        UNION ALL
        SELECT r.ctid, r.xid FROM pg_snapshot_xip(@earlier::pg_snapshot) open (xid) JOIN oarlock.returns r USING (xid)) o
     WHERE pg_visible_in_snapshot(o.xid, @before::pg_snapshot)
     LIMIT @batch::int
), gone AS (
    DELETE FROM oarlock.returns r WHERE r.ctid = ANY (ARRAY(SELECT o.ctid FROM old o))
)
SELECT pg_current_snapshot()::text, (SELECT count(*) = @batch FROM old)
