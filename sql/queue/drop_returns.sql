-- Purpose: deletes what came back to lanes and every worker has seen, since the time before, and says what has been seen by now
-- Index: returns_xid, from the time before on
-- Locks: those rows
WITH old AS MATERIALIZED (
    SELECT r.ctid, r.xid FROM oarlock.returns r WHERE r.xid >= pg_snapshot_xmax(@earlier::pg_snapshot)
    UNION ALL
    SELECT r.ctid, r.xid FROM pg_snapshot_xip(@earlier::pg_snapshot) open (xid) JOIN oarlock.returns r USING (xid)
), gone AS (
    DELETE FROM oarlock.returns r
     WHERE r.ctid = ANY (ARRAY(SELECT o.ctid FROM old o WHERE pg_visible_in_snapshot(o.xid, @before::pg_snapshot)))
)
SELECT pg_current_snapshot()::text
