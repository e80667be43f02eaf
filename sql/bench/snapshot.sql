-- Purpose: takes the snapshot of a transaction, which then keeps VACUUM from removing dead rows. Only benchmarks send it
-- Index: none
-- Locks: none
SELECT txid_current_snapshot()::text
