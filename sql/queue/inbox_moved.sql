-- Purpose: of the runs that a flush did not match, the ones that we still claim: there the inbox differed
-- Index: runs_pkey
-- Locks: none
SELECT u.n FROM unnest(@runs::bigint[], @claims::uuid[]) WITH ORDINALITY u (run_id, claim_id, n)
  JOIN oarlock.runs r ON r.run_id = u.run_id AND r.claim_id = u.claim_id
