package migrations_test

import (
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/migrations"
)

// The user that prepares a database is mostly a superuser, and until PostgreSQL 15 every user could create in schema public.
func TestUp_FindsNothingThatOthersPutIntoItsPath(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pgtest.SetTraps(t, b.conn)
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
