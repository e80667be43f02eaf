-- Purpose: the chunks that hold some lines of a log, found by the number of the first line; the last row tells which lines
--          these are
-- Index: tasks_pkey, attempts_pkey; log_chunks' key, at most 35 times for one entry, and two ranges
-- Locks: none
SELECT w.seq, coalesce(w.stream, 0), w.at, w.data, w.final, coalesce(w.reason, ''), coalesce(w.dropped_bytes, 0), w.lines, w.before,
       coalesce(w.attempt, 0), coalesce(w.total, 0), coalesce(w.looked, 0)
  FROM oarlock.log_window(@run, @step, @item, @attempt::int, @first::bigint, @most::int, @stream::int, @bytes::int) w
