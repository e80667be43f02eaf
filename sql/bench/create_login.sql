-- Purpose: the login of workers under measurement, with the role of workers and nothing else. Only benchmarks send it
-- Index: none
-- Locks: none
CREATE ROLE "{name}" LOGIN PASSWORD '{password}' IN ROLE oarlock_worker
