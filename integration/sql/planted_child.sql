INSERT INTO oarlock.runs (run_id, dag_id, version, lane_id, state, params, run_at, ready_at, logical_at, trigger, root_id, submitted_by,
                          parent_run, parent_step, parent_item, parent_alt)
OVERRIDING SYSTEM VALUE
SELECT 9, dag_id, version, lane_id, state, params, run_at, ready_at, logical_at, trigger, 9, submitted_by, parent_run, parent_step, parent_item, parent_alt
  FROM oarlock.runs WHERE run_id = 2
