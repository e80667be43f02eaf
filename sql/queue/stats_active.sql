-- Purpose: the runs of each DAG that have not ended, by state; of each state, and of each lane and stage that waits, up to a bound
-- Index: runs_rare by state; runs_queued by lane and stage
-- Locks: none
SELECT d.name, a.state, count(*)
  FROM (      (SELECT r.dag_id, r.state FROM oarlock.runs r WHERE r.state = 'running' LIMIT @most)
        UNION ALL (SELECT r.dag_id, r.state FROM oarlock.runs r WHERE r.state = 'waiting' LIMIT @most)
        UNION ALL (SELECT r.dag_id, r.state FROM oarlock.runs r WHERE r.state = 'paused' LIMIT @most)
        UNION ALL
        SELECT q.dag_id, CASE WHEN q.run_at > clock_timestamp() AND q.epoch = 0 THEN 'scheduled' ELSE 'queued' END
          FROM oarlock.lanes l CROSS JOIN generate_series(0, 2) s (stage)
         CROSS JOIN LATERAL (SELECT r.dag_id, r.run_at, r.epoch FROM oarlock.runs r WHERE r.lane_id = l.lane_id AND r.stage = s.stage AND r.state = 'queued'
                              ORDER BY r.ready_at LIMIT @most) q) a
  JOIN oarlock.dags d USING (dag_id)
 WHERE @dag::text IS NULL OR d.name = @dag::text
 GROUP BY d.name, a.state
 ORDER BY d.name, a.state
