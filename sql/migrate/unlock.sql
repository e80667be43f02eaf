-- Purpose: give the lock of migrations back
-- Index: none
-- Locks: releases the advisory lock $1
SELECT pg_advisory_unlock($1)
