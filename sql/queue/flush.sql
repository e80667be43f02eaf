-- Purpose: writes the records of several drives, all in one statement, and returns which of the drives still hold their claim.
--          Most flushes write tasks, some the end of a run, few anything else: without the parts `other`, `run` and `approval`
--          the statement costs a third less
-- Index: fences_pkey, runs_pkey, runs_parent, tasks_pkey, approvals_open_pkey, attempts_pkey, controls_open, events_once, log_chunks_pkey, lanes_pkey, followers_pkey, cache_pkey
-- Locks: our commit fence; then @lock, runs by id, if a parent run has to learn of an end; then runs that change, by id; the
--        rows that belong to them; lanes by id; cache by key, passing over locked rows
WITH fence AS MATERIALIZED (
    SELECT 1 FROM oarlock.fences f WHERE f.worker_id = @worker AND f.channel = 'commit' FOR NO KEY UPDATE
),
-- part other
-- The end of a child changes the row of its parent too. Every statement that locks several runs does it in the order of ids.
locked AS MATERIALIZED (
    SELECT 1 FROM unnest(@lock::bigint[]) u (run_id) JOIN oarlock.runs r ON r.run_id = u.run_id
     WHERE (SELECT count(*) FROM fence) = 1
       FOR NO KEY UPDATE OF r
),
-- end other
-- part run
-- If another session changed the row since this statement began, Postgres compares claim and inbox once more on the new
-- version. A control that was accepted in the meantime makes this UPDATE match no row.
changed AS (
    UPDATE oarlock.runs r
       SET state       = coalesce(u.state, CASE WHEN u.leaves AND r.state = 'running' THEN 'waiting' ELSE r.state END),
           wake_at     = CASE WHEN coalesce(u.state, CASE WHEN u.leaves AND r.state = 'running' THEN 'waiting' ELSE r.state END) = 'waiting'
                              -- part other
                              OR u.stage = 1
                              -- end other
                              THEN u.wake_at END,
           claim_id    = CASE WHEN NOT u.leaves THEN r.claim_id END,
           worker_id   = CASE WHEN NOT u.leaves THEN r.worker_id END,
           stage       = CASE WHEN NOT u.leaves THEN r.stage
                              -- part other
                              WHEN u.stage = 0 THEN 0 WHEN u.stage = 2 THEN CASE WHEN u.fresh THEN 2 ELSE 0 END
                              -- end other
                              ELSE 1 END,
           -- part other
           ready_at    = CASE WHEN u.stage IS NULL THEN r.ready_at WHEN NOT u.fresh THEN clock_timestamp() WHEN r.stage = 2 THEN r.ready_at
                              ELSE oarlock.place_of(r.run_id, r.run_at, clock_timestamp()) END,
           -- end other
           losses      = CASE WHEN NOT u.calms THEN r.losses ELSE 0 END,
           reason      = CASE WHEN u.recorded THEN u.reason ELSE r.reason END,
           ending      = CASE WHEN u.recorded THEN u.ending ELSE r.ending END,
           ending_by   = CASE WHEN u.recorded THEN u.ending_by ELSE r.ending_by END,
           ending_text = CASE WHEN u.recorded THEN u.ending_text ELSE r.ending_text END,
           paused_by   = CASE WHEN u.recorded THEN u.paused_by ELSE r.paused_by END,
           deadline    = CASE WHEN u.recorded THEN u.deadline
                              -- part other
                              WHEN u.stage = 2 THEN NULL
                              -- end other
                              ELSE r.deadline END,
           left_ms     = CASE WHEN u.recorded THEN u.left_ms ELSE r.left_ms END,
           tolerated   = CASE WHEN u.recorded THEN u.tolerated ELSE r.tolerated END,
           counts      = CASE WHEN u.recorded THEN u.counts ELSE r.counts END,
           started_at  =
           -- part other
               CASE WHEN u.fresh THEN NULL ELSE
           -- end other
               coalesce(r.started_at, u.started_at)
           -- part other
               END
           -- end other
               ,
           finished_at = CASE WHEN u.state IN ('succeeded', 'failed', 'canceled') THEN coalesce(u.finished_at, clock_timestamp()) END
      FROM
           -- part other
           -- A run counts as never claimed if it has neither a task of its generation nor an unfinished child.
           (SELECT u.*, u.stage = 2 AND NOT EXISTS (SELECT FROM oarlock.runs g JOIN oarlock.tasks t USING (run_id, generation) WHERE g.run_id = u.run_id)
                   AND NOT EXISTS (SELECT FROM oarlock.runs k WHERE k.parent_run = u.run_id AND k.finished_at IS NULL) AS fresh
              FROM
           -- end other
           unnest(@runs::oarlock.flush_run[]) u
           -- part other
           ) u
           -- end other
     WHERE r.run_id = u.run_id AND r.claim_id = u.claim_id AND (u.inbox IS NULL OR r.inbox = u.inbox)
       AND (SELECT count(*) FROM fence) = 1
       -- part other
       AND (SELECT count(*) FROM locked) >= 0
       -- end other
    RETURNING u.n, r.run_id, r.lane_id, r.ready_at, r.state = 'queued' AS back, r.finished_at IS NOT NULL AND r.parent_run IS NOT NULL AS tells
),
-- end run
-- No worker takes a claim away while our fence is there, so a run needs no lock if its row stays as it is.
kept AS MATERIALIZED (
    SELECT u.n, r.run_id FROM unnest(@claims::oarlock.flush_claim[]) u JOIN oarlock.runs r ON r.run_id = u.run_id AND r.claim_id = u.claim_id
     WHERE (SELECT count(*) FROM fence) = 1
),
-- The hits by place in the flush. Each CTE below looks its own place up in this array: a join would be planned for ten rows.
held AS MATERIALIZED (
    SELECT array_agg(x.hit ORDER BY x.n) AS hits
      FROM (SELECT y.n, bool_or(y.hit) AS hit
              FROM (SELECT n, false AS hit FROM generate_series(1, @places::bigint) n
                    -- part run
                    UNION ALL SELECT n, true FROM changed
                    -- end run
                    UNION ALL SELECT n, true FROM kept) y
             GROUP BY y.n) x
),
-- An attempt keeps the worker name and the log day of its first record, whichever worker writes a later one. A settled
-- result stays as long as the task is in the same attempt.
task AS (
    INSERT INTO oarlock.tasks AS t (run_id, step, item, alt, state, attempt, generation, epoch, seq, reason, failure_kind, exit_code, signal,
        worker, slot, outputs, tolerated, retries, publish_tries, publishing, request, request_by, marked, grown, reset_by, reset_from, next_attempt_at, deadline,
        external_ref, cache_key, log_day, last_line, started_at, attempt_at, finished_at)
    SELECT u.run_id, u.step, u.item, u.alt, u.state, u.attempt, u.generation, u.epoch, u.seq, u.reason, u.failure_kind, u.exit_code, u.signal,
           @name::text, u.slot, u.outputs, u.tolerated, u.retries, u.publish_tries, u.publishing, u.request, u.request_by, u.marked, u.grown, u.reset_by, u.reset_from,
           u.next_attempt_at, u.deadline, u.external_ref, u.cache_key, u.log_day, u.last_line, u.started_at, u.attempt_at, u.finished_at
      FROM unnest(@tasks::oarlock.flush_task[]) u WHERE (SELECT hits FROM held)[u.n]
    ON CONFLICT (run_id, step, item, alt) DO UPDATE
       SET state = excluded.state, attempt = excluded.attempt, generation = excluded.generation, epoch = excluded.epoch, seq = excluded.seq,
           reason = excluded.reason, failure_kind = excluded.failure_kind, exit_code = excluded.exit_code, signal = excluded.signal,
           worker = CASE WHEN t.attempt = excluded.attempt THEN coalesce(t.worker, excluded.worker) ELSE excluded.worker END,
           slot = coalesce(excluded.slot, t.slot), outputs = excluded.outputs, tolerated = excluded.tolerated, retries = excluded.retries,
           publish_tries = excluded.publish_tries, publishing = excluded.publishing, request = excluded.request,
           request_by = excluded.request_by, marked = excluded.marked,
           settled = CASE WHEN t.attempt = excluded.attempt THEN t.settled END,
           grown = excluded.grown, reset_by = excluded.reset_by, reset_from = excluded.reset_from, next_attempt_at = excluded.next_attempt_at, deadline = excluded.deadline,
           external_ref = excluded.external_ref, cache_key = excluded.cache_key,
           log_day = CASE WHEN t.attempt = excluded.attempt THEN coalesce(t.log_day, excluded.log_day) ELSE excluded.log_day END,
           last_line = coalesce(excluded.last_line, t.last_line), started_at = excluded.started_at, attempt_at = excluded.attempt_at,
           finished_at = excluded.finished_at
     WHERE (t.epoch, t.seq) < (excluded.epoch, excluded.seq)
),
-- part approval
-- There is a row for each waiting approval, and no other. A task is in a flush once, so its row is either opened or closed.
opened AS (
    INSERT INTO oarlock.approvals_open (run_id, step, item, alt, prompt, inputs, approvers, since)
    SELECT u.run_id, u.step, u.item, u.alt, u.prompt, u.inputs,
           CASE WHEN u.approvers IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(u.approvers)) END, u.since
      FROM unnest(@approvals::oarlock.flush_approval[]) u WHERE u.opens AND (SELECT hits FROM held)[u.n]
    ON CONFLICT (run_id, step, item, alt) DO UPDATE
       SET prompt = excluded.prompt, inputs = excluded.inputs, approvers = excluded.approvers, since = excluded.since
),
closed AS (
    DELETE FROM oarlock.approvals_open a
     USING unnest(@approvals::oarlock.flush_approval[]) u
     WHERE NOT u.opens AND (SELECT hits FROM held)[u.n] AND a.run_id = u.run_id AND a.step = u.step AND a.item = u.item AND a.alt = u.alt
),
-- end approval
-- part other
-- The worker and the log day of a superseded attempt are in the row of its task, as the row was before this flush.
attempt AS (
    INSERT INTO oarlock.attempts (run_id, step, item, alt, attempt, generation, state, failure_kind, exit_code, signal, reason, worker,
        log_day, started_at, finished_at)
    SELECT u.run_id, u.step, u.item, u.alt, u.attempt, u.generation, u.state, u.failure_kind, u.exit_code, u.signal, u.reason,
           coalesce(t.worker, @name), coalesce(t.log_day, u.log_day), u.started_at, u.finished_at
      FROM unnest(@attempts::oarlock.flush_attempt[]) u
      LEFT JOIN oarlock.tasks t ON t.run_id = u.run_id AND t.step = u.step AND t.item = u.item AND t.alt = u.alt AND t.attempt = u.attempt
     WHERE (SELECT hits FROM held)[u.n]
    ON CONFLICT DO NOTHING
),
decision AS (
    UPDATE oarlock.controls c SET decided_at = clock_timestamp(), outcome = u.outcome, state = u.state, message = u.message
      FROM unnest(@decisions::oarlock.flush_decision[]) u
     WHERE c.control_id = u.control_id AND c.run_id = u.run_id AND c.decided_at IS NULL AND (SELECT hits FROM held)[u.n]
),
note AS (
    INSERT INTO oarlock.events (run_id, at, kind, worker, epoch, seq, step, item, alt, message)
    SELECT u.run_id, coalesce(u.at, clock_timestamp()), u.kind, @name, u.epoch, u.seq, u.step, u.item, u.alt, u.message
      FROM unnest(@notes::oarlock.flush_note[]) u WHERE (SELECT hits FROM held)[u.n]
    ON CONFLICT (run_id, epoch, seq) WHERE seq IS NOT NULL DO NOTHING
),
chunk AS (
    INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data, final, reason, dropped_bytes, lines)
    SELECT u.log_day, u.run_id, u.step, u.item, u.alt, u.attempt, u.seq, u.stream, u.at, u.data, u.final, u.reason, u.dropped_bytes, u.lines
      FROM unnest(@chunks::oarlock.flush_chunk[]) u WHERE (SELECT hits FROM held)[u.n]
    ON CONFLICT DO NOTHING
),
lane AS (
    SELECT c.lane_id, count(*) AS rows, min(c.ready_at) AS at FROM changed c WHERE c.back GROUP BY c.lane_id
),
-- end other
announced AS (
    SELECT f.run_id, f.logs AND f.until > clock_timestamp() AS logs, pg_notify(f.channel, 'run:' || f.run_id)
      FROM (
            -- part run
            SELECT run_id FROM changed UNION ALL
            -- end run
            SELECT run_id FROM kept) x JOIN oarlock.followers f ON f.run_id = x.run_id
     WHERE EXISTS (SELECT FROM oarlock.followers)
)
SELECT (SELECT count(*) FROM fence) = 1 AS fenced,
       (SELECT hits FROM held) AS hits,
       (SELECT array_agg(a.run_id) FILTER (WHERE a.logs) FROM announced a) AS followed
       -- part other
     , (SELECT count(oarlock.child_ended(c.run_id)) FROM changed c WHERE c.tells) AS told,
       (SELECT count(oarlock.wake(l.lane_id, l.rows, at => l.at)) FROM lane l) AS woken,
       (SELECT count(oarlock.keep(k.dag_id, k.step, k.key, k.outputs, k.run_id, k.ttl_ms, k.shared))
          FROM (SELECT u.* FROM unnest(@keeps::oarlock.flush_keep[]) u WHERE (SELECT hits FROM held)[u.n]
                 ORDER BY u.dag_id, u.step, u.key, u.n) k) AS cached
       -- end other
