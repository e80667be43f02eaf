-- Has the owner's process ended? True takes the lock, so that one process only cleans up. Locks: advisory (class, owner).
SELECT pg_try_advisory_lock($1, $2)
