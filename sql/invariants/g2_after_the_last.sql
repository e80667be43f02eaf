-- Purpose: G2: nothing comes after a log's final marker
-- Index: none, it reads all chunks; log_chunks' key
-- Locks: none
SELECT c.run_id, c.step, c.item, c.alt, c.attempt, min(c.seq) FILTER (WHERE c.final) AS final, max(c.seq) AS last
  FROM oarlock.log_chunks c
 GROUP BY c.run_id, c.step, c.item, c.alt, c.attempt
HAVING min(c.seq) FILTER (WHERE c.final) < max(c.seq)
