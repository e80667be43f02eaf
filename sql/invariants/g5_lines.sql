-- Purpose: G5: each chunk has the number of lines that had begun by its end, which never falls
-- Index: none, it reads all chunks; log_chunks' key gives them in order
-- Locks: none
SELECT c.run_id, c.step, c.item, c.alt, c.attempt, c.seq, c.lines, c.former
  FROM (SELECT x.run_id, x.step, x.item, x.alt, x.attempt, x.seq, x.lines,
               lag(x.lines, 1, 0::bigint) OVER (PARTITION BY x.log_day, x.run_id, x.step, x.item, x.alt, x.attempt ORDER BY x.seq) AS former
          FROM oarlock.log_chunks x) c
 WHERE c.lines < c.former
