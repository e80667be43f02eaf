-- Purpose: keeps a task's result in the transaction of its own SQL, as the last thing before COMMIT
-- Index: fences_pkey, runs_pkey, tasks_pkey
-- Locks: our settle fence, shared by all tasks that settle; then the run; then the task. The fence comes before the run,
--        because a takeover deletes the fences of a lost worker before it takes the runs
WITH fence AS MATERIALIZED (
    SELECT 1 FROM oarlock.fences f WHERE f.worker_id = @worker AND f.channel = 'settle' FOR KEY SHARE
),
run AS MATERIALIZED (
    SELECT r.run_id FROM oarlock.runs r
     WHERE r.run_id = @run AND r.claim_id = @claim AND (SELECT count(*) FROM fence) = 1
       AND r.worker_id = @worker -- the fence is our own: it proves nothing about a claim of an earlier life of this process
       FOR NO KEY UPDATE
)
UPDATE oarlock.tasks t SET settled = pg_catalog.jsonb_build_object('attempt', @attempt::int, 'outputs', @outputs::jsonb)
  FROM run
 WHERE t.run_id = run.run_id AND t.step = @step AND t.item = @item AND t.alt = @alt AND t.attempt = @attempt::int AND t.state = 'running'
