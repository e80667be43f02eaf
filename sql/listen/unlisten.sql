-- Purpose: stops receiving the notifications of a channel
-- Index: none
-- Locks: none that another session waits for
UNLISTEN "{channel}"
