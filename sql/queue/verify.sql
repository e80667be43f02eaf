-- Purpose: on a new connection: whether the claims that we believe to hold are ours in the database, and the last record
--          written under each
-- Index: fences_pkey, runs_pkey, tasks_pkey
-- Locks: none
SELECT u.n, coalesce(r.claim_id = u.claim_id, false) AS ours, r.claim_id IS NULL AS free, coalesce(r.epoch, -1) AS epoch,
       coalesce(r.generation, -1) AS generation, coalesce(r.state, '') AS state, coalesce(t.seq, 0) AS seq,
       EXISTS (SELECT FROM oarlock.fences f WHERE f.worker_id = @worker AND f.channel = 'commit') AS fenced
  FROM unnest(@runs::bigint[], @claims::uuid[], @epochs::int[]) WITH ORDINALITY u (run_id, claim_id, epoch, n)
  LEFT JOIN oarlock.runs r ON r.run_id = u.run_id
 CROSS JOIN LATERAL (SELECT max(x.seq) AS seq FROM oarlock.tasks x WHERE x.run_id = u.run_id AND x.epoch = u.epoch) t
