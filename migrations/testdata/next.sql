-- A migration of the program after this one, as tests have it: it adds, and this program goes on.
ALTER TABLE oarlock.runs ADD COLUMN next_note text NOT NULL DEFAULT '';
-- Two functions return rows of runs, and name the columns that there were.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION oarlock.visible_run(run bigint) RETURNS SETOF oarlock.runs
LANGUAGE sql STABLE ROWS 1
BEGIN ATOMIC
    SELECT * FROM oarlock.runs r WHERE r.run_id = run AND oarlock.sees_run_of(r.submitted_by);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION oarlock.shown_run(run bigint) RETURNS SETOF oarlock.runs
LANGUAGE sql STABLE ROWS 1
BEGIN ATOMIC
    SELECT * FROM oarlock.runs r WHERE r.run_id = run AND (oarlock.sees_run_of(r.submitted_by) OR oarlock.has_say_in(r));
END;
-- +goose StatementEnd
ALTER TABLE oarlock.tasks ADD COLUMN next_cost bigint;
ALTER TABLE oarlock.workers ADD COLUMN next_region text NOT NULL DEFAULT 'here';
CREATE TABLE oarlock.next_table (run_id bigint PRIMARY KEY, note text NOT NULL);
CREATE INDEX next_index ON oarlock.runs (next_note) WHERE next_note <> '';
CREATE FUNCTION oarlock.next_function(run bigint) RETURNS text LANGUAGE sql STABLE RETURN 'note of ' || run::text;
REVOKE ALL ON FUNCTION oarlock.next_function(bigint) FROM PUBLIC;
