-- Returns true if the owner's process has ended, and takes its lock then, so that only one process cleans up. Locks: advisory (class, owner).
SELECT pg_try_advisory_lock($1, $2)
