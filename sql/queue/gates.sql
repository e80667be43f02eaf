-- Purpose: lets one claimer at a time count what a limit has left; whoever is not first passes by
-- Index: fences_pkey, queues_pkey, dags_pkey
-- Locks: the worker's claim fence, then the queue's row, then the DAG's, each FOR NO KEY UPDATE, the latter two SKIP LOCKED
WITH fence AS MATERIALIZED (
    SELECT f.worker_id FROM oarlock.fences f JOIN oarlock.workers w ON w.worker_id = f.worker_id AND w.state = 'live'
     WHERE f.worker_id = @worker AND f.channel = 'claim'
       FOR NO KEY UPDATE OF f
), queue AS MATERIALIZED (
    SELECT q.name FROM oarlock.queues q
     WHERE EXISTS (SELECT FROM fence) AND q.name = @queue AND @by_queue::bool
       FOR NO KEY UPDATE SKIP LOCKED
), dag AS MATERIALIZED (
    SELECT d.dag_id FROM oarlock.dags d
     WHERE (NOT @by_queue OR EXISTS (SELECT FROM queue)) AND EXISTS (SELECT FROM fence) AND d.dag_id = @dag AND @by_dag::bool
       FOR NO KEY UPDATE SKIP LOCKED
)
SELECT EXISTS (SELECT FROM fence) AND (NOT @by_queue OR EXISTS (SELECT FROM queue)) AND (NOT @by_dag OR EXISTS (SELECT FROM dag))
