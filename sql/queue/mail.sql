-- Purpose: inbox and undecided controls of claimed runs, in one snapshot; no row for a claim that is gone; for the first upto
--          runs, until their rows have @bytes
-- Index: runs_pkey, controls_open, each twice
-- Locks: none
WITH RECURSIVE part (upto, bytes) AS ( -- run by run, so that the server unpacks no value that it does not send
    SELECT 0, 0::bigint
    UNION ALL
    SELECT p.upto + 1, p.bytes + coalesce((
               SELECT sum(200 + octet_length(c.args::text))
                 FROM oarlock.runs r JOIN oarlock.controls c ON c.run_id = r.run_id AND c.decided_at IS NULL
                WHERE r.run_id = (@runs::bigint[])[p.upto + 1] AND r.claim_id = (@claims::uuid[])[p.upto + 1]), 0)::bigint
      FROM part p WHERE p.upto < cardinality(@runs::bigint[]) AND p.bytes < @bytes::bigint
)
SELECT x.upto, r.run_id, r.inbox, c.control_id, c.verb, coalesce(c.step, '') AS step, coalesce(c.item, '') AS item, c.args, c.by, c.at
  FROM (SELECT max(p.upto) AS upto FROM part p) x
 CROSS JOIN LATERAL unnest((@runs::bigint[])[:x.upto], (@claims::uuid[])[:x.upto]) a (run_id, claim_id)
  JOIN oarlock.runs r ON r.run_id = a.run_id AND r.claim_id = a.claim_id
  LEFT JOIN oarlock.controls c ON c.run_id = r.run_id AND c.decided_at IS NULL
 ORDER BY r.run_id + 0, c.control_id -- + 0: in the order of the key, the plan would go through all runs there are
