-- Purpose: inbox and undecided controls of claimed runs, as one moment shows them; nothing of a claim that is gone
-- Index: runs_pkey, controls_open
-- Locks: none
SELECT r.run_id, r.inbox, c.control_id, c.verb, coalesce(c.step, '') AS step, coalesce(c.item, '') AS item, c.args, c.by, c.at
  FROM unnest(@runs::bigint[], @claims::uuid[]) a (run_id, claim_id)
  JOIN oarlock.runs r ON r.run_id = a.run_id AND r.claim_id = a.claim_id
  LEFT JOIN oarlock.controls c ON c.run_id = r.run_id AND c.decided_at IS NULL
 ORDER BY r.run_id, c.control_id
