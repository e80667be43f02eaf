-- Purpose: takes the snapshot of a transaction, which then holds up what VACUUM may remove. Only benchmarks send it
-- Index: none
-- Locks: none
SELECT txid_current_snapshot()::text
