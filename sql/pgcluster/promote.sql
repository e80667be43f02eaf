-- Purpose: makes a standby a primary, and waits until it is one (tests only)
-- Index: none
-- Locks: none
SELECT pg_promote(true, 60)
