-- Runs that were accepted while the clock was an hour ahead: one is to start at once, one later; one has begun. Another is scheduled, and was accepted in time.
SELECT oarlock.put_dag('{"name": "few", "steps": [{"id": "a", "run": "true"}]}', '', 'h', '{process}');
INSERT INTO oarlock.runs (dag_id, version, lane_id, state, run_at, ready_at, created_at, logical_at, trigger, root_id, submitted_by, epoch)
SELECT v.dag_id, 1, v.lane_id, 'queued', now() + r.due, now() + r.due, now() + r.made, now(), 'sql', 0, session_user, r.epoch
  FROM oarlock.dag_versions v,
       (VALUES (interval '1 hour', interval '1 hour', 0), ('2 hours', '1 hour', 0), ('1 hour', '1 hour', 1), ('1 hour', '0', 0)) r (due, made, epoch);
