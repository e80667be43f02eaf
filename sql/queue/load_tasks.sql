-- Purpose: the tasks of claimed runs as their last drive left them, each running one with the end of its log; for the first
--          upto runs, until their rows have @bytes
-- Index: runs_pkey, tasks_pkey, each twice; the log's key backwards, one entry for each task recorded as running or with a publish to come
-- Locks: none
WITH RECURSIVE part (upto, bytes) AS ( -- run by run, so that the server unpacks no value that it does not send
    SELECT 0, 0::bigint
    UNION ALL
    SELECT p.upto + 1, p.bytes + coalesce((
               SELECT sum(200 + octet_length(t.item) + octet_length(t.reason) + coalesce(octet_length(t.outputs::text), 0)
                          + coalesce(octet_length(t.grown::text), 0) + coalesce(octet_length(t.settled::text), 0))
                 FROM oarlock.runs r JOIN oarlock.tasks t ON t.run_id = r.run_id
                WHERE r.run_id = (@runs::bigint[])[p.upto + 1] AND r.claim_id = (@claims::uuid[])[p.upto + 1]), 0)::bigint
      FROM part p WHERE p.upto < cardinality(@runs::bigint[]) AND p.bytes < @bytes::bigint
)
SELECT x.upto, t.run_id, t.step, t.item, t.alt, t.seq, t.generation, t.state, t.attempt, t.reason, t.failure_kind, t.exit_code, t.signal, t.outputs,
       t.tolerated, t.retries, t.publish_tries, t.publishing, t.request, t.request_by, t.marked, t.next_attempt_at, t.deadline,
       t.external_ref, t.cache_key, t.grown, t.reset_by, t.reset_from, t.started_at, t.attempt_at, t.finished_at, t.settled, t.log_day, coalesce(e.seq + 1, 0) AS next, coalesce(e.lines, 0) AS lines, coalesce(e.final, false) AS final
  FROM (SELECT max(p.upto) AS upto FROM part p) x
 CROSS JOIN LATERAL unnest((@runs::bigint[])[:x.upto], (@claims::uuid[])[:x.upto]) a (run_id, claim_id)
  JOIN oarlock.runs r ON r.run_id = a.run_id AND r.claim_id = a.claim_id
  JOIN oarlock.tasks t ON t.run_id = r.run_id
  LEFT JOIN LATERAL (
       SELECT c.seq, c.lines, c.final FROM oarlock.log_chunks c
        WHERE c.log_day = t.log_day AND c.run_id = t.run_id AND c.step = t.step AND c.item = t.item AND c.alt = t.alt AND c.attempt = t.attempt
        ORDER BY c.seq DESC LIMIT 1) e ON t.state IN ('running', 'finishing') OR t.state = 'retrying' AND t.publishing
 ORDER BY t.run_id + 0, t.step, t.item, t.alt -- + 0: in the order of the key, the plan would go through all tasks there are
