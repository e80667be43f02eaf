-- Purpose: receives the notifications of a channel, from the commit of this statement until the connection ends
-- Index: none
-- Locks: none that another session waits for
LISTEN "{channel}"
