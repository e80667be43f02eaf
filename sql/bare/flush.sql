-- Purpose: a flush with no engine around it: the fence, records of tasks by claim, the ends of runs. No refusals, no inbox, no
--          attempts, notes, controls or logs. Only benchmarks send it
-- Index: fences_pkey, runs_pkey, tasks_pkey
-- Locks: the worker's commit fence, then the runs that end, then tasks
WITH fence AS MATERIALIZED (
    SELECT 1 FROM oarlock.fences WHERE worker_id = $1 AND channel = 'commit' FOR NO KEY UPDATE
), ended AS (
    UPDATE oarlock.runs r SET state = 'succeeded', claim_id = NULL, worker_id = NULL, finished_at = clock_timestamp()
      FROM unnest($7::bigint[], $8::uuid[]) u (run_id, claim_id)
     WHERE r.run_id = u.run_id AND r.claim_id = u.claim_id AND (SELECT count(*) FROM fence) = 1
)
INSERT INTO oarlock.tasks AS t (run_id, step, state, attempt, generation, epoch, seq)
SELECT u.run_id, u.step, u.state, 1, 1, 1, u.seq
  FROM unnest($2::bigint[], $3::uuid[], $4::int[], $5::text[], $6::bigint[]) u (run_id, claim_id, step, state, seq)
  JOIN oarlock.runs r ON r.run_id = u.run_id AND r.claim_id = u.claim_id
 WHERE (SELECT count(*) FROM fence) = 1
ON CONFLICT (run_id, step, item, alt) DO UPDATE SET state = excluded.state, seq = excluded.seq
 WHERE (t.epoch, t.seq) < (excluded.epoch, excluded.seq)
