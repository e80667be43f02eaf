-- Purpose: the numbers of the row types that a flush is made of, which differ between databases
-- Index: pg_type's own
-- Locks: none
SELECT 'oarlock.flush_run'::regtype::oid, 'oarlock.flush_claim'::regtype::oid, 'oarlock.flush_task'::regtype::oid, 'oarlock.flush_attempt'::regtype::oid,
       'oarlock.flush_decision'::regtype::oid, 'oarlock.flush_note'::regtype::oid, 'oarlock.flush_chunk'::regtype::oid,
       'oarlock.flush_keep'::regtype::oid, 'oarlock.flush_approval'::regtype::oid
