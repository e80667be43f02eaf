-- Gives the lock of claim_dead.sql back.
SELECT pg_advisory_unlock($1, $2)
