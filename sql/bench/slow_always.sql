-- Purpose: has commits wait even where nobody else is in a transaction: see bench/slow_commits. Only benchmarks send it
-- Index: none
-- Locks: none
ALTER DATABASE "{name}" SET commit_siblings = 0
