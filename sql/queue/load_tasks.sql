-- Purpose: the tasks of claimed runs as their last drive left them, with where the log of each that runs ends
-- Index: runs_pkey, tasks_pkey; the log's key backwards, one entry for each task recorded as running
-- Locks: none
SELECT t.run_id, t.step, t.item, t.alt, t.seq, t.generation, t.state, t.attempt, t.reason, t.failure_kind, t.exit_code, t.signal, t.outputs,
       t.tolerated, t.retries, t.publish_tries, t.publishing, t.request, t.request_by, t.marked, t.next_attempt_at, t.deadline,
       t.external_ref, t.cache_key, t.grown, t.started_at, t.attempt_at, t.finished_at, t.settled, t.log_day, coalesce(e.seq + 1, 0) AS next, coalesce(e.final, false) AS final
  FROM unnest(@runs::bigint[], @claims::uuid[]) a (run_id, claim_id)
  JOIN oarlock.runs r ON r.run_id = a.run_id AND r.claim_id = a.claim_id
  JOIN oarlock.tasks t ON t.run_id = r.run_id
  LEFT JOIN LATERAL (
       SELECT c.seq, c.final FROM oarlock.log_chunks c
        WHERE c.log_day = t.log_day AND c.run_id = t.run_id AND c.step = t.step AND c.item = t.item AND c.alt = t.alt AND c.attempt = t.attempt
        ORDER BY c.seq DESC LIMIT 1) e ON t.state IN ('running', 'finishing')
 ORDER BY t.run_id, t.step, t.item, t.alt
