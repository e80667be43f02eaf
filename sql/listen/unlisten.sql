-- Purpose: receive no more of a channel
-- Index: none
-- Locks: none that anybody else waits for
UNLISTEN "{channel}"
