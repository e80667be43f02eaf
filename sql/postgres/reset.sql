-- Purpose: leaves nothing of a task to the next one on its connection: role, settings, temporary tables, advisory locks
-- Index: none
-- Locks: none
DISCARD ALL
