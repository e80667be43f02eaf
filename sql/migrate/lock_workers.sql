-- Purpose: keeps workers from registering until the calling migration is over, and waits for registrations in flight
-- Index: none
-- Locks: SHARE ROW EXCLUSIVE on workers: an INSERT waits for it, and takes its snapshot afterwards
LOCK TABLE oarlock.workers IN SHARE ROW EXCLUSIVE MODE
