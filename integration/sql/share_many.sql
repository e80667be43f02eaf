-- Purpose: tests of sharing: asks for $2 runs of $1 at once
-- Index: none
-- Locks: none
SELECT count(*) FROM oarlock.enqueue_many($1, array_fill('{}'::jsonb, ARRAY[$2::int]))
