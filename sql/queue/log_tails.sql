-- Purpose: the chunks that hold the last lines of several logs of a run; the last row of each log tells which lines these are
-- Index: of each log as log_window
-- Locks: none
SELECT q.place, w.seq, coalesce(w.stream, 0), w.at, w.data, w.final, coalesce(w.reason, ''), coalesce(w.dropped_bytes, 0), w.lines, w.before,
       coalesce(w.attempt, 0), coalesce(w.total, 0), coalesce(w.looked, 0)
  FROM unnest(@steps::text[], @items::text[]) WITH ORDINALITY q (step, item, place)
 CROSS JOIN LATERAL oarlock.log_window(@run, q.step, q.item, NULL, NULL, @most::int, NULL, @bytes::int) w
 ORDER BY q.place, w.attempt IS NOT NULL, w.seq
