-- +goose Up

-- The id of this installation, and the database in which workers served it. A copy of the database has the same row, so a
-- worker that finds itself in another place knows that it may be in a copy. A database that no worker has served yet is
-- accepted in any place, since templates are cloned.
CREATE TABLE oarlock.installation (
    one         bool   PRIMARY KEY DEFAULT true CHECK (one),
    id          uuid   NOT NULL DEFAULT oarlock.new_uid(),
    server      bigint, -- system_identifier; null: the server does not tell
    database    oid,
    timeline    bigint,
    served_at   timestamptz, -- when workers began to serve it there; null: no worker has yet
    copied_from uuid,        -- the installation that this one was copied from
    copied_to   bigint NOT NULL DEFAULT 0,    -- runs up to this number belong to copied_from: they are never started here
    adopting    bool   NOT NULL DEFAULT false -- true: some of these are still open, and no worker may start here yet
);

-- Returns the place of this database. A managed server may refuse to tell a part: that is null then, and is not compared.
-- +goose StatementBegin
CREATE FUNCTION oarlock.place(OUT server bigint, OUT database oid, OUT timeline bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT d.oid INTO database FROM pg_database d WHERE d.datname = current_database();
    BEGIN
        SELECT c.system_identifier INTO server FROM pg_control_system() c;
    EXCEPTION WHEN feature_not_supported OR insufficient_privilege OR undefined_function OR object_not_in_prerequisite_state THEN
        NULL;
    END;
    IF NOT pg_is_in_recovery() THEN -- a standby writes no timeline of its own
        timeline := ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint;
    END IF;
EXCEPTION WHEN feature_not_supported OR insufficient_privilege OR undefined_function OR object_not_in_prerequisite_state THEN
    NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.place IS 'Internal: where this database is.';

INSERT INTO oarlock.installation (server, database, timeline) SELECT p.server, p.database, p.timeline FROM oarlock.place() p;

-- +goose StatementBegin
CREATE FUNCTION oarlock.identity() RETURNS TABLE (
    id uuid, served_at timestamptz, server bigint, database oid, timeline bigint, here_server bigint, here_database oid, here_timeline bigint,
    copied_from uuid, adopting bool)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp ROWS 1
BEGIN ATOMIC
    SELECT i.id, i.served_at, i.server, i.database, i.timeline, p.server, p.database, p.timeline, i.copied_from, i.adopting
      FROM oarlock.installation i CROSS JOIN oarlock.place() p;
END;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.identity IS $$Returns the id of this installation of Oarlock, and the place of its database.

`server` (the `system_identifier`), `database` (the oid of the database) and `timeline` are the place where workers last served the database. `here_server`, `here_database` and `here_timeline` are the place of the database now. If the two places differ, the database is perhaps a copy. Workers refuse a database that is perhaps a copy, until you run `oarlock migrate adopt`. `served_at` is null until the first worker has served the database. `copied_from` is the id of the installation from which this installation was copied.

```sql
SELECT id, (server, database, timeline) = (here_server, here_database, here_timeline) AS in_place FROM oarlock.identity();
```$$;
-- +goose StatementEnd

-- Records that a worker serves the installation here, and returns the id of the installation. The worker is the first one ever,
-- or knows this as the place where the installation was served before. Workers cannot vouch for another server or database:
-- that takes `oarlock.adopt`. Returns null if this is neither.
-- +goose StatementBegin
CREATE FUNCTION oarlock.vouch() RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known uuid;
BEGIN
    UPDATE oarlock.installation i
       SET id = CASE WHEN i.served_at IS NULL AND (i.server, i.database) IS DISTINCT FROM (p.server, p.database) THEN oarlock.new_uid() ELSE i.id END,
           server = CASE WHEN i.served_at IS NULL THEN p.server ELSE coalesce(i.server, p.server) END, database = p.database,
           timeline = coalesce(p.timeline, i.timeline), served_at = coalesce(i.served_at, clock_timestamp())
      FROM oarlock.place() p
     WHERE NOT i.adopting AND (i.served_at IS NULL OR i.database = p.database AND (i.server = p.server) IS NOT FALSE)
    RETURNING i.id INTO known;
    RETURN known;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.vouch IS 'Internal: a worker says that the installation goes on here.';

-- Ends an open run of the original in a copy, without a driver and without its handlers, because nothing of it may start here. Its
-- parent is a run of the original as well, and is ended by its own call.
-- +goose StatementBegin
CREATE FUNCTION oarlock.end_foreign(r oarlock.runs, why text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    ended timestamptz := clock_timestamp();
BEGIN
    IF r.started_at IS NOT NULL THEN
        PERFORM oarlock.cancel_tasks(r, why, ended);
    END IF;
    PERFORM oarlock.refuse_open(r.run_id, 'canceled', why);
    UPDATE oarlock.runs o
       SET state = 'canceled', reason = why, claim_id = NULL, worker_id = NULL, ending = 'now', ending_by = session_user, ending_text = '',
           paused_by = '', deadline = NULL, left_ms = 0, wake_at = NULL, queue_deadline = NULL, inbox = o.inbox + 1, finished_at = ended,
           counts = o.counts || jsonb_build_object('open', 0, 'canceled', (o.counts ->> 'open')::int + (o.counts ->> 'canceled')::int)
     WHERE o.run_id = r.run_id;
    INSERT INTO oarlock.events (run_id, at, kind, by, message) VALUES (r.run_id, ended, 'canceled', session_user, why);
END $$;
-- +goose StatementEnd

-- Declares what a restored or copied database is. With moved, the original is gone, and all runs go on here. Otherwise this is
-- a copy beside its original: it gets an id of its own, and the open runs of the original end, `batch` of them in each call
-- until is_done. `was` is the id that the caller saw, so that a call repeated after a lost reply does it once. Only the owner
-- of the schema may call it, and only while no worker is connected.
-- +goose StatementBegin
CREATE FUNCTION oarlock.adopt(was uuid, moved bool, batch int DEFAULT 1000, OUT installation uuid, OUT canceled bigint, OUT is_done bool)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    i    oarlock.installation;
    r    oarlock.runs;
    busy text;
BEGIN
    SELECT * INTO i FROM oarlock.installation FOR UPDATE;
    SELECT string_agg(w.name, ', ') INTO busy FROM oarlock.workers w WHERE w.state IN ('live', 'draining') AND EXISTS (
                  SELECT FROM pg_stat_activity a WHERE a.datname = current_database() AND a.application_name = 'oarlock/' || w.worker_id);
    IF busy IS NOT NULL THEN
        RAISE EXCEPTION 'worker % is connected to this database', busy USING ERRCODE = '55006', HINT = 'stop the workers, adopt, then start them again';
    ELSIF was IS NULL OR moved IS NULL OR batch IS NULL OR batch NOT BETWEEN 1 AND 100000 THEN
        RAISE EXCEPTION 'adopt: was is a uuid, moved is true or false, batch is from 1 to 100000' USING ERRCODE = 'OA013', HINT = 'oarlock migrate adopt calls it';
    END IF;
    canceled := 0;
    IF i.id <> was AND NOT i.adopting THEN
        installation := i.id;
        is_done := true;
        RETURN;
    ELSIF moved AND i.adopting THEN
        RAISE EXCEPTION 'this database was said to be a copy, and runs of its original have ended here' USING ERRCODE = '55000', HINT = 'go on with: oarlock migrate adopt --copy';
    ELSIF NOT moved THEN
        IF NOT i.adopting THEN
            UPDATE oarlock.installation o
               SET id = oarlock.new_uid(), copied_from = i.id, copied_to = coalesce((SELECT max(x.run_id) FROM oarlock.runs x), 0), adopting = true
            RETURNING * INTO i;
        END IF;
        FOR r IN SELECT * FROM oarlock.runs o WHERE o.run_id = ANY (ARRAY( -- two parts, so that each uses its own index
                        (SELECT q.run_id FROM oarlock.runs q WHERE q.state = 'queued' AND q.run_id <= i.copied_to LIMIT batch)
                        UNION ALL
                        (SELECT q.run_id FROM oarlock.runs q WHERE q.state IN ('running', 'waiting', 'paused') AND q.run_id <= i.copied_to LIMIT batch)
                        LIMIT batch)) ORDER BY o.run_id FOR NO KEY UPDATE LOOP
            PERFORM oarlock.end_foreign(r, format('canceled by %s: this database is a copy, and installation %s goes on with the run', session_user, i.copied_from));
            canceled := canceled + 1;
        END LOOP;
    END IF;
    installation := i.id;
    is_done := canceled < batch;
    IF is_done THEN
        UPDATE oarlock.installation o SET server = p.server, database = p.database, timeline = p.timeline, served_at = clock_timestamp(), adopting = false
          FROM oarlock.place() p;
    END IF;
    IF is_done AND NOT moved THEN -- these are workers of the original, which never start here
        UPDATE oarlock.workers w SET state = 'lost', ended_at = clock_timestamp(), hungry = 0, least = NULL, busy = 0, waiting = 0, runs = 0
         WHERE w.state IN ('live', 'draining');
        DELETE FROM oarlock.fences;
    END IF;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION oarlock.adopt(uuid, bool, int);
DROP FUNCTION oarlock.end_foreign(oarlock.runs, text);
DROP FUNCTION oarlock.vouch();
DROP FUNCTION oarlock.identity();
DROP FUNCTION oarlock.place();
DROP TABLE oarlock.installation;
