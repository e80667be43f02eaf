-- Purpose: S15: a run has keys exactly if its lane is keyed. Without keys, claims of a keyed lane would pass over it for ever
-- Index: none
-- Locks: none
SELECT r.run_id, r.lane_id, l.keyed, r.limit_keys
  FROM oarlock.runs r JOIN oarlock.lanes l USING (lane_id)
 WHERE l.keyed <> (r.limit_keys IS NOT NULL)
