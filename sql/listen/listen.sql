-- Purpose: receives the notifications of a channel, from the commit of this statement until the connection ends
-- Index: none
-- Locks: none that anybody else waits for
LISTEN "{channel}"
