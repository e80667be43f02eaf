-- Purpose: appends chunks to the logs of runs that this worker holds, and announces them where a follower reads the log; stores
--          nothing of runs that the worker holds no more. A chunk that is already stored fails the whole statement (23505), so
--          that no chunk is stored behind it: a final marker that another worker wrote stays the last chunk. See
--          queue/chunks_there
-- Index: fences_pkey; runs_pkey; log_chunks' key; followers_pkey
-- Locks: the worker's fence of channel logs; new rows
WITH fence AS MATERIALIZED ( -- locked before any run is read: once the fence is deleted, no run is read
    SELECT FROM oarlock.fences f WHERE f.worker_id = @worker AND f.channel = 'logs' FOR NO KEY UPDATE
), mine AS MATERIALIZED (
    SELECT r.run_id
      FROM fence
     CROSS JOIN unnest(@runs::bigint[], @claims::uuid[]) held (run_id, claim_id)
      JOIN oarlock.runs r ON r.run_id = held.run_id AND r.claim_id = held.claim_id
), stored AS (
    INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data, final, reason, dropped_bytes, lines)
    -- Values are looked up by index, because an unnest of fourteen arrays costs a third of the rate. The data is one bytea
    -- and no array: with an array both sides would copy all of it once more, and the client several times.
    SELECT (@days::date[])[c.n], (@chunk_runs::bigint[])[c.n], (@steps::int[])[c.n], (@items::text[])[c.n], (@alts::int[])[c.n],
           (@attempts::int[])[c.n], (@seqs::int[])[c.n], (@streams::smallint[])[c.n], (@ats::timestamptz[])[c.n],
           substr(@data::bytea, (@begins::int[])[c.n], (@sizes::int[])[c.n]),
           (@finals::bool[])[c.n], nullif((@reasons::text[])[c.n], ''), (@dropped::bigint[])[c.n], (@lines::bigint[])[c.n]
      FROM generate_series(1, cardinality(@sizes::int[])) c (n)
     WHERE (@chunk_runs::bigint[])[c.n] IN (SELECT m.run_id FROM mine m)
), told AS MATERIALIZED (
    SELECT f.run_id, pg_notify(f.channel, 'run:' || f.run_id)
      FROM mine
      JOIN oarlock.followers f USING (run_id)
     WHERE f.logs AND f.until > clock_timestamp()
)
SELECT EXISTS (SELECT FROM fence) AS fenced, ARRAY(SELECT m.run_id FROM mine m) AS mine, ARRAY(SELECT DISTINCT t.run_id FROM told t) AS followed
