-- One process at a time builds the template. Locks: advisory (class, 0).
SELECT pg_advisory_lock($1, 0)
