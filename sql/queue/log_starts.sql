-- Purpose: the chunks in which the last lines of several logs begin, or the first chunks that arrived since a moment
-- Index: log_chunks' key, backwards from the end of each log; with a moment, a range per attempt without its data
-- Locks: none
SELECT s.place, s.seq
  FROM oarlock.log_starts(@run, @steps, @items, @alts, @attempts, @days, @lines::bigint, @since::timestamptz) s
