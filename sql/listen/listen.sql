-- Purpose: receive what is sent to a channel, from the commit of this on; ends with the connection
-- Index: none
-- Locks: none that anybody else waits for
LISTEN "{channel}"
