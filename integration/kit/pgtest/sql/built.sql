-- Gives the lock of building.sql back.
SELECT pg_advisory_unlock($1, 0)
