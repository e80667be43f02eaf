-- Purpose: releases the lock of migrations
-- Index: none
-- Locks: releases the advisory lock $1
SELECT pg_advisory_unlock($1)
