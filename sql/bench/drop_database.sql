-- Purpose: removes a database of a benchmark, and ends the sessions that are still connected to it. Only benchmarks send it
-- Index: none
-- Locks: the database
DROP DATABASE IF EXISTS "{name}" WITH (FORCE)
