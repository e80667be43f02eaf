-- Purpose: G1: the chunks of an attempt are numbered from 0 without a gap
-- Index: none, it reads all chunks; log_chunks' key gives them in order
-- Locks: none
SELECT c.run_id, c.step, c.item, c.alt, c.attempt, count(*) AS chunks, max(c.seq) AS last
  FROM oarlock.log_chunks c
 GROUP BY c.run_id, c.step, c.item, c.alt, c.attempt
HAVING count(*) <> max(c.seq) + 1
