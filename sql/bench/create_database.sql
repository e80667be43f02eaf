-- Purpose: makes a database for a benchmark, a copy of the migrated one. Only benchmarks send it
-- Index: none
-- Locks: the template, to which no session may be connected
CREATE DATABASE "{name}" TEMPLATE "{template}"
