-- Purpose: which of these queues there are not, for a worker that begins and is told to serve them
-- Index: queues_pkey
-- Locks: none
SELECT asked.name FROM unnest(@queues::text[]) asked (name)
 WHERE NOT EXISTS (SELECT FROM oarlock.queues q WHERE q.name = asked.name)
 ORDER BY asked.name
