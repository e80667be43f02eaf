-- Purpose: chunks of several attempts, each from a number on
-- Index: log_chunks' key, a range per attempt
-- Locks: none
SELECT c.place, c.seq, c.stream, c.at, c.data, c.final, coalesce(c.reason, ''), c.dropped_bytes, c.lines
  FROM oarlock.read_chunks(@run, @steps, @items, @alts, @attempts, @days, @froms, @max_rows, @max_each) c
