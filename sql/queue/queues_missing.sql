-- Purpose: the queues that do not exist, of the queues that a starting worker is to serve
-- Index: queues_pkey
-- Locks: none
SELECT asked.name FROM unnest(@queues::text[]) asked (name)
 WHERE NOT EXISTS (SELECT FROM oarlock.queues q WHERE q.name = asked.name)
 ORDER BY asked.name
