-- Purpose: partitions for the logs of today and the next days
-- Index: none
-- Locks: log_chunks SHARE UPDATE EXCLUSIVE, only where a day is missing; gives up after a second and answers 0, which leaves the days to the next hour
SELECT oarlock.make_log_days($1)
