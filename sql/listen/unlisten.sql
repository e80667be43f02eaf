-- Purpose: stops receiving the notifications of a channel
-- Index: none
-- Locks: none that anybody else waits for
UNLISTEN "{channel}"
