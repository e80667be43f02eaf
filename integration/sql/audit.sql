-- What a fault run adds to its database: a trail of the changes of runs and tasks, and a table that tasks write to. Sent as one
-- script, before any other session uses the database.
CREATE SCHEMA chaos;
GRANT USAGE ON SCHEMA chaos TO PUBLIC;

CREATE TABLE chaos.once (run_id bigint NOT NULL, step text NOT NULL, by_worker text NOT NULL DEFAULT current_setting('application_name'));
GRANT INSERT ON chaos.once TO PUBLIC;

CREATE TABLE chaos.audit (
    seq         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tx          bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    run_id      bigint NOT NULL,
    step        int, -- null: the run itself
    item        text,
    alt         int,
    was         text,
    became      text NOT NULL,
    was_attempt int NOT NULL DEFAULT 0,
    attempt     int NOT NULL DEFAULT 0,
    generation  int NOT NULL,
    reset_by    bigint NOT NULL DEFAULT 0, -- the control that reset the task last
    epoch       int NOT NULL,
    run_epoch   int NOT NULL,
    claim       uuid,
    asked       bool NOT NULL DEFAULT false, -- the inbox of the run moved
    slotless    uuid -- the worker that gave it back, if its next task waits for a slot
);

-- A number is drawn while the row is locked, so the numbers of one row are in the order of its changes.
CREATE FUNCTION chaos.note_run() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO chaos.audit (run_id, was, became, generation, epoch, run_epoch, claim, asked, slotless)
    VALUES (NEW.run_id, CASE TG_OP WHEN 'UPDATE' THEN OLD.state END, NEW.state, NEW.generation, NEW.epoch, NEW.epoch, NEW.claim_id,
            TG_OP = 'UPDATE' AND OLD.inbox <> NEW.inbox,
            CASE WHEN TG_OP = 'UPDATE' AND OLD.claim_id IS NOT NULL AND NEW.claim_id IS NULL AND NEW.state = 'queued' AND NEW.stage > 0
                  AND current_query() NOT LIKE '%WITH idle AS MATERIALIZED%' -- queue/release: no drive of it began
                 THEN (SELECT w.worker_id FROM oarlock.workers w WHERE w.worker_id = OLD.worker_id AND w.state = 'live') END);
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_new AFTER INSERT ON oarlock.runs FOR EACH ROW EXECUTE FUNCTION chaos.note_run();
CREATE TRIGGER chaos_changed AFTER UPDATE ON oarlock.runs FOR EACH ROW
    WHEN ((OLD.state, OLD.epoch, OLD.generation, OLD.claim_id, OLD.inbox) IS DISTINCT FROM (NEW.state, NEW.epoch, NEW.generation, NEW.claim_id, NEW.inbox)
          OR OLD.finished_at IS NOT NULL AND OLD IS DISTINCT FROM NEW)
    EXECUTE FUNCTION chaos.note_run();

CREATE FUNCTION chaos.note_task() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO chaos.audit (run_id, step, item, alt, was, became, was_attempt, attempt, generation, reset_by, epoch, run_epoch, claim)
    SELECT NEW.run_id, NEW.step, NEW.item, NEW.alt, CASE TG_OP WHEN 'UPDATE' THEN OLD.state END, NEW.state,
           CASE TG_OP WHEN 'UPDATE' THEN OLD.attempt ELSE 0 END, NEW.attempt, NEW.generation, coalesce(NEW.reset_by, 0), NEW.epoch, r.epoch, r.claim_id
      FROM oarlock.runs r WHERE r.run_id = NEW.run_id;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_new AFTER INSERT ON oarlock.tasks FOR EACH ROW EXECUTE FUNCTION chaos.note_task();
CREATE TRIGGER chaos_changed AFTER UPDATE ON oarlock.tasks FOR EACH ROW
    WHEN ((OLD.state, OLD.attempt, OLD.generation, OLD.epoch) IS DISTINCT FROM (NEW.state, NEW.attempt, NEW.generation, NEW.epoch)
          OR OLD.finished_at IS NOT NULL AND OLD IS DISTINCT FROM NEW)
    EXECUTE FUNCTION chaos.note_task();

-- Notes deletions, and changes of rows that are only added. Nothing prunes these tables during a seed.
CREATE TABLE chaos.tampered (what text NOT NULL, run_id bigint NOT NULL);
CREATE FUNCTION chaos.note_tampering() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO chaos.tampered VALUES (lower(TG_OP) || ' of ' || TG_TABLE_NAME, OLD.run_id);
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_tampered AFTER DELETE ON oarlock.runs FOR EACH ROW EXECUTE FUNCTION chaos.note_tampering();
CREATE TRIGGER chaos_tampered AFTER DELETE ON oarlock.tasks FOR EACH ROW EXECUTE FUNCTION chaos.note_tampering();
CREATE TRIGGER chaos_tampered AFTER DELETE ON oarlock.controls FOR EACH ROW EXECUTE FUNCTION chaos.note_tampering();
CREATE TRIGGER chaos_tampered AFTER UPDATE OR DELETE ON oarlock.attempts FOR EACH ROW EXECUTE FUNCTION chaos.note_tampering();
CREATE TRIGGER chaos_tampered AFTER UPDATE OR DELETE ON oarlock.events FOR EACH ROW EXECUTE FUNCTION chaos.note_tampering();
CREATE TRIGGER chaos_tampered AFTER UPDATE OR DELETE ON oarlock.log_chunks FOR EACH ROW EXECUTE FUNCTION chaos.note_tampering();
