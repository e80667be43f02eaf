-- Purpose: A1: one run per submitter and key, and the key leads to it
-- Index: none, it reads all runs with a key; run_keys_pkey
-- Locks: none
SELECT r.submitted_by, r.run_key, array_agg(r.run_id ORDER BY r.run_id) AS runs, array_agg(k.run_id) AS keyed
  FROM oarlock.runs r
  LEFT JOIN oarlock.run_keys k ON k.submitter = r.submitted_by AND k.run_key = r.run_key
 WHERE r.run_key IS NOT NULL
 GROUP BY r.submitted_by, r.run_key
HAVING count(*) > 1 OR count(*) FILTER (WHERE k.run_id = r.run_id) = 0
