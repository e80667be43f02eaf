-- Purpose: all runs but those of schedules: how they ended, and whether a cancel was accepted
-- Index: none
-- Locks: none
SELECT r.run_id, d.name, r.state, r.reason, r.generation, r.epoch,
       coalesce((SELECT bool_or(c.outcome IS DISTINCT FROM 'refused') FROM oarlock.controls c WHERE c.run_id = r.run_id AND c.verb = 'cancel' AND c.step IS NULL), false)
       OR r.state = 'canceled' AND r.epoch = 0, l.queue, coalesce(r.limit_keys[1], ''), coalesce(r.params ->> 'n', '')
  FROM oarlock.runs r JOIN oarlock.dags d USING (dag_id) JOIN oarlock.lanes l USING (lane_id)
 WHERE r.schedule_id IS NULL
 ORDER BY r.run_id
