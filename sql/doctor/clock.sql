-- Purpose: the server's clock now, to compare with ours
-- Index: none
-- Locks: none
SELECT clock_timestamp()
