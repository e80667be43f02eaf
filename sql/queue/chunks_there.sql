-- Purpose: which of these chunks are stored already, and whether they are the same
-- Index: log_chunks' key, once per chunk and in the partition of its day only
-- Locks: none
SELECT given.n::int, stored.same
  FROM unnest(@days::date[], @chunk_runs::bigint[], @steps::int[], @items::text[], @alts::int[], @attempts::int[], @seqs::int[],
              @streams::smallint[], @data::bytea[], @finals::bool[], @reasons::text[], @dropped::bigint[], @lines::bigint[]) WITH ORDINALITY
       given (log_day, run_id, step, item, alt, attempt, seq, stream, data, final, reason, dropped_bytes, lines, n)
 CROSS JOIN LATERAL ( -- LIMIT keeps the planner from reading whole partitions instead
       SELECT c.stream = given.stream AND c.data = given.data AND c.final = given.final AND coalesce(c.reason, '') = given.reason
              AND c.dropped_bytes = given.dropped_bytes AND c.lines = given.lines AS same
         FROM oarlock.log_chunks c
        WHERE c.log_day = given.log_day AND c.run_id = given.run_id AND c.step = given.step AND c.item = given.item
          AND c.alt = given.alt AND c.attempt = given.attempt AND c.seq = given.seq
        LIMIT 1) stored
