-- Purpose: a moment of the sharing of work: workers, and runs that need only a slot to go on. It leaves out runs behind a limit or a pause,
--          runs of DAGs that name pools, and runs with a task under way or a timer. It has the idle runs that a worker holds only if the worker reports at least as many tasks
--          that wait for slots
-- Index: none: a few rows
-- Locks: none
WITH session AS (
    SELECT a.application_name AS name,
           max(extract(epoch FROM a.query_start) * 1e6) FILTER (WHERE a.query LIKE '/* oarlock queue/claim%' OR a.query LIKE '/* oarlock queue/look */%') AS polled,
           bool_or(a.state = 'active' AND a.query_start < statement_timestamp() - interval '100 milliseconds') AS stuck
      FROM pg_stat_activity a
     WHERE a.datname = current_database() AND a.query LIKE '/* oarlock queue/%'
     GROUP BY a.application_name
), free AS (
    SELECT r.run_id, r.epoch, r.generation, r.worker_id, r.state,
           ARRAY(SELECT w.worker_id FROM oarlock.workers w JOIN oarlock.worker_offers o USING (worker_id)
                  WHERE w.state = 'live' AND w.worker_id IS DISTINCT FROM r.worker_id AND oarlock.may_serve(w, o.offers, l)) AS may
      FROM oarlock.runs r JOIN oarlock.lanes l USING (lane_id) JOIN oarlock.queues q ON q.name = l.queue JOIN oarlock.dags d ON d.dag_id = r.dag_id
           JOIN oarlock.dag_versions v ON v.dag_id = r.dag_id AND v.version = r.version
     WHERE (r.state = 'queued' AND r.run_at <= statement_timestamp() OR r.state = 'running' AND r.ending = '' AND r.paused_by = '')
       AND q.paused_by IS NULL AND q.max_running = 0 AND d.paused_by IS NULL AND d.max_active_runs = 0 AND NOT l.keyed AND v.pools = '{}'
), held AS (
    SELECT f.run_id, f.worker_id, w.waiting, count(*) OVER (PARTITION BY f.worker_id) AS n,
           (SELECT count(*) + coalesce(sum(t.attempt), 0) + count(t.finished_at) FROM oarlock.tasks t WHERE t.run_id = f.run_id) AS progress
      FROM free f JOIN oarlock.workers w USING (worker_id)
     WHERE f.state = 'running' AND w.state = 'live'
       AND NOT EXISTS (SELECT FROM oarlock.tasks t WHERE t.run_id = f.run_id AND t.generation = f.generation
                          AND t.state IN ('running', 'finishing', 'retrying', 'waiting', 'paused'))
)
SELECT jsonb_build_object(
    'seats', coalesce((
        SELECT jsonb_agg(jsonb_build_object('id', w.worker_id, 'name', w.name, 'beat', w.beat, 'polled', coalesce(s.polled, 0)::bigint, 'stuck', coalesce(s.stuck, false),
                                            'room', w.hungry > 0 AND w.busy < w.slots AND w.waiting = 0))
          FROM oarlock.workers w LEFT JOIN session s ON s.name = 'oarlock/' || w.worker_id WHERE w.state = 'live'), '[]'),
    'waits', coalesce((
        SELECT jsonb_agg(jsonb_build_object('run', f.run_id, 'epoch', f.epoch, 'progress', coalesce(h.progress, 0), 'holder', coalesce(f.worker_id::text, ''), 'may', f.may))
          FROM free f LEFT JOIN held h USING (run_id) WHERE f.state = 'queued' OR h.n <= h.waiting), '[]'))
