-- Purpose: sets the person on behalf of whom the login asks in the rest of the transaction; oarlock.actor describes where that
--          counts
-- Index: none
-- Locks: none
SELECT set_config('oarlock.actor', @actor, true)
