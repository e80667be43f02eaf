-- Purpose: keeps workers from registering until the migration that asks is over, and waits for those that are at it
-- Index: none
-- Locks: SHARE ROW EXCLUSIVE on workers: an INSERT waits for it, and takes its snapshot afterwards
LOCK TABLE oarlock.workers IN SHARE ROW EXCLUSIVE MODE
