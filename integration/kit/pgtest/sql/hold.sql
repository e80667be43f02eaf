-- Marks this test process as alive for as long as its connection lives. Locks: advisory (class, owner), shared.
SELECT pg_advisory_lock_shared($1, $2)
