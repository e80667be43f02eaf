-- Purpose: removes a database of a benchmark, whoever is connected still. Only benchmarks send it
-- Index: none
-- Locks: the database
DROP DATABASE IF EXISTS "{name}" WITH (FORCE)
