-- Purpose: for whom the rest of the transaction asks; oarlock.actor says where that counts
-- Index: none
-- Locks: none
SELECT set_config('oarlock.actor', @actor, true)
