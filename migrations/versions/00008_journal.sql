-- +goose Up

-- The row types of a flush: one for each table that it writes to, so that it takes one array per table and not one per column (a
-- thousand rows of thirty columns: 0.3 ms instead of 5). Whole numbers are bigint, so that the database refuses a number too large
-- for its column, and no client cuts it.
CREATE TYPE oarlock.flush_run AS (
    n           bigint, -- place in the flush
    run_id      bigint,
    claim_id    uuid,
    recorded    bool,   -- the columns from reason to wake_at are new
    leaves      bool,   -- the claim is given back
    stage       bigint, -- stage in which it goes back into the queue: 0 in any case, 1 it waits for a slot, 2 as if never claimed, if nothing of it has happened; null: it does not go back
    calms       bool,   -- a task finished, so earlier losses no longer count
    inbox       bigint, -- the inbox that the run must have; null: any
    state       text,   -- null: unchanged
    reason      text,
    ending      text,
    ending_by   text,
    ending_text text,
    paused_by   text,
    deadline    timestamptz,
    left_ms     bigint,
    tolerated   bigint,
    counts      jsonb,
    started_at  timestamptz,
    finished_at timestamptz,
    wake_at     timestamptz
);

-- A run that keeps its own row as it is. Most runs of a flush do, so the type has only the columns that are compared.
CREATE TYPE oarlock.flush_claim AS (n bigint, run_id bigint, claim_id uuid);

CREATE TYPE oarlock.flush_task AS (
    n bigint, run_id bigint, epoch bigint, seq bigint, step bigint, item text, alt bigint, state text, attempt bigint,
    generation bigint, reason text, failure_kind text, exit_code bigint, signal bigint, slot bigint, outputs jsonb, tolerated bool,
    retries bigint, publish_tries bigint, publishing bool, request text, request_by text, marked text, grown jsonb,
    reset_by bigint, reset_from text, next_attempt_at timestamptz, deadline timestamptz, external_ref text, cache_key text, log_day date, last_line text,
    started_at timestamptz, attempt_at timestamptz, finished_at timestamptz
);

-- The question of an approval. opens: true writes the row, false deletes it.
CREATE TYPE oarlock.flush_approval AS (
    n bigint, run_id bigint, step bigint, item text, alt bigint, opens bool, prompt text, inputs jsonb, approvers jsonb, since timestamptz
);

CREATE TYPE oarlock.flush_attempt AS (
    n bigint, run_id bigint, step bigint, item text, alt bigint, attempt bigint, generation bigint, state text, failure_kind text,
    exit_code bigint, signal bigint, reason text, log_day date, started_at timestamptz, finished_at timestamptz
);

CREATE TYPE oarlock.flush_decision AS (n bigint, run_id bigint, control_id bigint, outcome text, state text, message text);

CREATE TYPE oarlock.flush_note AS (
    n bigint, run_id bigint, epoch bigint, seq bigint, at timestamptz, kind text, step bigint, item text, alt bigint, message text
);

CREATE TYPE oarlock.flush_chunk AS (
    n bigint, log_day date, run_id bigint, step bigint, item text, alt bigint, attempt bigint, seq bigint, stream bigint,
    at timestamptz, data bytea, final bool, reason text, dropped_bytes bigint, lines bigint
);

-- The outputs of a task, which later tasks of the step with the same key find.
CREATE TYPE oarlock.flush_keep AS (n bigint, dag_id bigint, step text, key text, outputs jsonb, run_id bigint, ttl_ms bigint, shared bool);

-- Keeps a result in the cache, for runs of the same submitter or, if shared, for all runs. If another transaction holds the row, a
-- flush or a prune that stays open, the result is not kept: the cache may do without it, and a flush must not wait for it.
-- ttl_ms 0: it never expires.
-- +goose StatementBegin
CREATE FUNCTION oarlock.keep(dag bigint, step text, key text, outputs jsonb, run bigint, ttl_ms bigint, shared bool) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    expires   timestamptz := CASE ttl_ms WHEN 0 THEN 'infinity' ELSE clock_timestamp() + ttl_ms * interval '1 millisecond' END;
    submitter text := CASE WHEN shared THEN '' ELSE (SELECT r.submitted_by FROM oarlock.runs r WHERE r.run_id = run) END;
BEGIN
    IF num_nulls(dag, step, key, run, ttl_ms, shared, submitter) > 0 THEN
        RAISE EXCEPTION 'keep: only outputs may be null, and the run must exist' USING ERRCODE = '22004';
    END IF;
    PERFORM FROM oarlock.cache c WHERE c.dag_id = dag AND c.submitter = submitter AND c.step = step AND c.key = key FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE oarlock.cache c SET outputs = coalesce(keep.outputs, '{}'), run_id = run, expires_at = expires
         WHERE c.dag_id = dag AND c.submitter = submitter AND c.step = step AND c.key = key;
    ELSIF NOT EXISTS (SELECT FROM oarlock.cache c WHERE c.dag_id = dag AND c.submitter = submitter AND c.step = step AND c.key = key) THEN
        INSERT INTO oarlock.cache (dag_id, submitter, step, key, outputs, run_id, expires_at)
        VALUES (dag, submitter, step, key, coalesce(outputs, '{}'), run, expires) ON CONFLICT DO NOTHING;
    END IF;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.keep(bigint, text, text, jsonb, bigint, bigint, bool) IS 'Internal: keeps the outputs of a task under its cache key.';

-- Reports the end of a run to its parent. The flush has locked the parent before the child. This is a later statement than the one
-- with the lock, so it sees the present row of the parent, which may have been parked or claimed in the meantime.
-- +goose StatementBegin
CREATE FUNCTION oarlock.child_ended(run bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    child oarlock.runs;
BEGIN
    SELECT * INTO child FROM oarlock.runs r WHERE r.run_id = run AND r.finished_at IS NOT NULL;
    PERFORM oarlock.tell_parent(child, child.state, child.reason);
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.child_ended(bigint) IS 'Internal: tells the parent of a run that ended, in the flush that ends it.';

-- Ends a run after its driver sent records that the database cannot take. No further record of that driver can be trusted to
-- fit, so the run ends here: open tasks are canceled, open controls refused, parent and followers notified. Returns true if the
-- run ended so, now or by an earlier copy of this call.
-- +goose StatementBegin
CREATE FUNCTION oarlock.fail_run(run bigint, claim uuid, epoch int, reason text) RETURNS bool
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    r     oarlock.runs;
    ended timestamptz := clock_timestamp();
BEGIN
    PERFORM FROM oarlock.runs o JOIN oarlock.fences f ON f.worker_id = o.worker_id AND f.channel = 'commit'
      WHERE o.run_id = run AND o.claim_id = claim FOR NO KEY UPDATE OF f;
    IF NOT FOUND THEN
        RETURN EXISTS (SELECT FROM oarlock.runs o WHERE o.run_id = run AND o.epoch = fail_run.epoch AND o.state = 'failed' AND o.reason = fail_run.reason);
    END IF;
    r := oarlock.lock_run(run, true);
    IF r.claim_id IS DISTINCT FROM claim THEN
        RETURN false;
    END IF;
    UPDATE oarlock.tasks t
       SET state = 'canceled', epoch = r.epoch, reason = fail_run.reason, next_attempt_at = NULL, deadline = NULL, finished_at = ended
     WHERE t.run_id = run AND t.state IN ('pending', 'ready', 'running', 'finishing', 'retrying', 'waiting', 'paused');
    DELETE FROM oarlock.approvals_open a WHERE a.run_id = run;
    UPDATE oarlock.controls c SET decided_at = ended, outcome = 'refused', state = 'failed', message = fail_run.reason
     WHERE c.run_id = run AND c.decided_at IS NULL;
    UPDATE oarlock.runs o
       SET state = 'failed', reason = fail_run.reason, claim_id = NULL, worker_id = NULL, ending = 'refused', ending_text = fail_run.reason,
           paused_by = '', deadline = NULL, left_ms = 0, finished_at = ended
     WHERE o.run_id = run;
    INSERT INTO oarlock.events (run_id, kind, worker, epoch, message)
    VALUES (run, 'refused', (SELECT w.name FROM oarlock.workers w WHERE w.worker_id = r.worker_id), epoch, reason);
    PERFORM pg_notify(f.channel, 'run:' || run) FROM oarlock.followers f WHERE f.run_id = run;
    IF r.parent_run IS NOT NULL THEN
        PERFORM oarlock.tell_parent(r, 'failed', reason);
    END IF;
    RETURN true;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.fail_run(bigint, uuid, int, text) IS 'Internal: ends a run as failed after records that the database cannot take.';

-- +goose Down
DROP FUNCTION oarlock.fail_run(bigint, uuid, int, text);
DROP FUNCTION oarlock.child_ended(bigint);
DROP FUNCTION oarlock.keep(bigint, text, text, jsonb, bigint, bigint, bool);
DROP TYPE oarlock.flush_approval, oarlock.flush_keep, oarlock.flush_chunk, oarlock.flush_note, oarlock.flush_decision, oarlock.flush_attempt, oarlock.flush_task, oarlock.flush_run, oarlock.flush_claim;
