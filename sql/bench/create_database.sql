-- Purpose: a database of a benchmark's own, as the migrated one is. Only benchmarks send it
-- Index: none
-- Locks: the template, which nobody may be connected to
CREATE DATABASE "{name}" TEMPLATE "{template}"
