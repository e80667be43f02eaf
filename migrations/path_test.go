package migrations_test

import (
	"testing"

	"github.com/oarlock-dev/oarlock/migrations"
)

// fitting are functions that fit calls of migrations better than the system's own do, which take anything.
var fitting = []string{
	"format(text, text) RETURNS text", "format(text, text, text) RETURNS text", "format(text, text, regclass, text) RETURNS text",
	"format(text, name) RETURNS text", "format(text, regclass) RETURNS text", "format(text, regprocedure) RETURNS text", "format(text, regtype) RETURNS text",
	"concat_ws(text, text, text) RETURNS text", "unnest(text[]) RETURNS SETOF text", "array_length(text[], int) RETURNS int",
}

// Who prepares a database is mostly its superuser; who may create in its schema public was everybody until PostgreSQL 15.
func TestUp_FindsNothingThatOthersPutIntoItsPath(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, function := range fitting {
		b.exec(t, "CREATE FUNCTION public."+function+" LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE EXCEPTION 'trapped %', current_user; END $$")
	}
	b.mustUp(t)
	if err := migrations.Roles(t.Context(), b.url); err != nil {
		t.Fatal(err)
	}
	b.exec(t, migrations.RolesSQL())
	bound := b.list(t, `SELECT d.classid::regclass || ' ' || d.objid FROM pg_depend d
		WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid IN (SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace)`)
	if len(bound) > 0 {
		t.Errorf("what migrations made uses functions of others: %v", bound)
	}
}
