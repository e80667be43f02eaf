-- Purpose: retries the last run of up to $1 lanes, as an application may in a transaction that it keeps open, even if it changes a setting of ours there
-- Index: none: a few rows
-- Locks: those runs
WITH settings AS MATERIALIZED (
    SELECT set_config('oarlock.touched', string_agg(',' || l.lane_id || ':1', ''), true)
      FROM oarlock.lanes l
)
SELECT count(oarlock.retry(r.run_id, 'all'))
  FROM settings, (SELECT max(o.run_id) AS run_id FROM oarlock.runs o WHERE o.finished_at IS NOT NULL AND o.parent_run IS NULL GROUP BY o.lane_id LIMIT $1) r
