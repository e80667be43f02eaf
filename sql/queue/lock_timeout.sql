-- Purpose: how long this transaction waits for a lock
-- Index: none
-- Locks: none
SELECT set_config('lock_timeout', $1, true)
