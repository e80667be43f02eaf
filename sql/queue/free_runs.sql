-- Purpose: how many of these runs no other session holds; a parent that is gone counts as free
-- Index: runs_pkey
-- Locks: each run FOR NO KEY UPDATE, passing over locked ones; the locks end with the statement
WITH asked AS (
    SELECT u.run_id FROM unnest($1::bigint[]) u (run_id)
), free AS MATERIALIZED (
    SELECT r.run_id FROM oarlock.runs r WHERE r.run_id = ANY ($1) FOR NO KEY UPDATE SKIP LOCKED
)
SELECT count(*) FROM asked a
 WHERE EXISTS (SELECT FROM free f WHERE f.run_id = a.run_id) OR NOT EXISTS (SELECT FROM oarlock.runs r WHERE r.run_id = a.run_id)
