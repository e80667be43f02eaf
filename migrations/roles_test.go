package migrations_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/oarlock-dev/oarlock/migrations"
)

func TestRoles_OwnerOwnsEverythingThatIsAndThatComes(t *testing.T) {
	t.Parallel()
	b := migrated(t)
	for range 2 { // the second time mends nothing and breaks nothing
		b.mustRoles(t)
		b.mustBelongToOwner(t)
	}
	b.exec(t, "REVOKE ALL ON SCHEMA oarlock FROM oarlock_read") // as if a later version had granted it
	if _, err := migrations.Down(t.Context(), b.url, 1); err != nil {
		t.Fatal(err)
	}
	b.mustUp(t)
	b.mustBelongToOwner(t)
	b.mustHavePrivileges(t)
}

func TestRoles_BeforeTheFirstMigration(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mustRoles(t)
	b.mustUp(t)
	b.mustBelongToOwner(t)
	b.mustHavePrivileges(t)
}

func TestRoles_LeaveWithTheDatabase(t *testing.T) {
	t.Parallel()
	b := migrated(t)
	b.mustRoles(t)
	if _, err := migrations.Down(t.Context(), b.url, 0); err != nil {
		t.Fatal(err)
	}
	b.mustBeClean(t)
	b.mustUp(t)
}

func TestRoles_InSeveralDatabasesAtOnce(t *testing.T) {
	t.Parallel()
	var group sync.WaitGroup
	for range 3 {
		b := setup(t)
		group.Go(func() {
			if err := migrations.Roles(t.Context(), b.url); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestUp_GrantsNothingToEverybody(t *testing.T) {
	t.Parallel()
	b := migrated(t)
	public := b.list(t, `
		SELECT o.name || ': ' || a.privilege_type FROM (
			SELECT 'schema ' || nspname AS name, nspacl AS acl FROM pg_namespace WHERE nspname LIKE 'oarlock%'
			UNION ALL SELECT 'relation ' || c.oid::regclass, relacl FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname LIKE 'oarlock%'
			UNION ALL SELECT 'routine ' || p.oid::regprocedure, coalesce(proacl, acldefault('f', proowner)) FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname LIKE 'oarlock%'
		) o, aclexplode(o.acl) a WHERE a.grantee = 0`)
	if len(public) > 0 {
		t.Errorf("everybody has %v", public)
	}
	routines := b.list(t, "SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname LIKE 'oarlock%'")
	if len(routines) == 0 {
		t.Error("no function to look at: this test shows nothing")
	}
}

func TestRoles_WithoutPermissionNamesTheSQLForAnAdministrator(t *testing.T) {
	t.Parallel()
	b := setup(t)
	app := b.login(t)
	err := migrations.Roles(t.Context(), app.url)
	var denied *migrations.RolesError
	if !errors.As(err, &denied) {
		t.Fatalf("error %v, want the SQL for an administrator", err)
	}
	if !strings.Contains(denied.Error(), denied.SQL) || !strings.Contains(denied.SQL, "'"+app.user+"'") {
		t.Errorf("the error does not name the SQL for user %s: %v", app.user, denied)
	}
	if _, err := migrations.Up(t.Context(), app.url); err == nil || !strings.Contains(err.Error(), "GRANT CREATE ON DATABASE") {
		t.Errorf("up without permission: %v", err)
	}
	b.exec(t, denied.SQL)
	if _, err := migrations.Up(t.Context(), app.url); err != nil {
		t.Fatalf("up after the administrator's work: %v", err)
	}
	b.mustBeComplete(t)
	b.mustBelongToOwner(t)
	b.mustHavePrivileges(t)
	if err := migrations.Roles(t.Context(), app.url); err != nil {
		t.Errorf("roles when there is nothing left to do: %v", err)
	}
}

func TestUp_WritesThroughTheConnectionThatHoldsTheLock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	app := b.login(t)
	b.exec(t, fmt.Sprintf("ALTER ROLE %s CONNECTION LIMIT 1", app.user))
	b.exec(t, fmt.Sprintf("DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %%I TO %s', current_database()); END $$", app.user))
	if _, err := migrations.Up(t.Context(), app.url); err != nil {
		t.Fatal(err)
	}
	b.mustBeComplete(t)
}

func TestUp_ByAStrangerSaysWhomToAsk(t *testing.T) {
	t.Parallel()
	b := migrated(t)
	b.mustRoles(t)
	if _, err := migrations.Down(t.Context(), b.url, 1); err != nil {
		t.Fatal(err)
	}
	app := b.login(t)
	b.exec(t, "GRANT oarlock_read TO "+app.user)
	_, err := migrations.Up(t.Context(), app.url)
	if err == nil || !strings.Contains(err.Error(), "GRANT oarlock_owner TO "+app.user) {
		t.Errorf("error %v", err)
	}
}

func TestRolesSQL_IsWhatAnAdministratorRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(t, migrations.RolesSQL())
	b.exec(t, migrations.RolesSQL())
	b.mustUp(t)
	b.mustBelongToOwner(t)
	b.mustHavePrivileges(t)
}

func (b bundle) mustRoles(t *testing.T) {
	t.Helper()
	if err := migrations.Roles(t.Context(), b.url); err != nil {
		t.Fatal(err)
	}
}

func (b bundle) mustBelongToOwner(t *testing.T) {
	t.Helper()
	others := b.list(t, `
		SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname LIKE 'oarlock%' AND nspowner <> 'oarlock_owner'::regrole
		UNION ALL SELECT 'relation ' || c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname LIKE 'oarlock%' AND relowner <> 'oarlock_owner'::regrole
		UNION ALL SELECT 'routine ' || p.oid::regprocedure FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname LIKE 'oarlock%' AND proowner <> 'oarlock_owner'::regrole
		UNION ALL SELECT 'type ' || y.oid::regtype FROM pg_type y JOIN pg_namespace n ON n.oid = typnamespace WHERE nspname LIKE 'oarlock%' AND typowner <> 'oarlock_owner'::regrole`)
	if len(others) > 0 {
		t.Errorf("not the owner's: %v", others)
	}
}

// mustHavePrivileges checks a sample of the role matrix (testdata/schema.txt shows all of it), and that no role has rights on a
// later table before a migration grants them.
func (b bundle) mustHavePrivileges(t *testing.T) {
	t.Helper()
	b.exec(t, "SET ROLE oarlock_owner")
	b.exec(t, "CREATE TABLE oarlock.tomorrow (x int)")
	b.exec(t, "RESET ROLE")
	defer b.exec(t, "DROP TABLE oarlock.tomorrow")
	want := map[string]string{
		"oarlock_worker":  "oarlock.schema_history r; oarlock.tomorrow -; oarlock_river.river_job rw",
		"oarlock_submit":  "oarlock.schema_history r; oarlock.tomorrow -; oarlock_river.river_job -",
		"oarlock_read":    "oarlock.schema_history r; oarlock.tomorrow -; oarlock_river.river_job -",
		"oarlock_approve": "oarlock.schema_history r; oarlock.tomorrow -; oarlock_river.river_job -",
		"oarlock_admin":   "oarlock.schema_history r; oarlock.tomorrow -; oarlock_river.river_job -",
	}
	for role, want := range want {
		got := b.list(t, `
			SELECT string_agg(c.relname_full || ' ' || CASE
				WHEN has_table_privilege($1, c.oid, 'INSERT') AND has_table_privilege($1, c.oid, 'UPDATE') AND has_table_privilege($1, c.oid, 'DELETE') THEN 'rw'
				WHEN has_table_privilege($1, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER') THEN 'some writing'
				WHEN has_table_privilege($1, c.oid, 'SELECT') THEN 'r' ELSE '-' END, '; ' ORDER BY relname_full)
			FROM (SELECT c.oid, nspname || '.' || relname AS relname_full FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace) c
			WHERE relname_full IN ('oarlock.schema_history', 'oarlock.tomorrow', 'oarlock_river.river_job')`, role)
		if got[0] != want {
			t.Errorf("%s may %s, want %s", role, got[0], want)
		}
		if use := b.list(t, "SELECT has_schema_privilege($1, 'oarlock', 'USAGE')::text || has_schema_privilege($1, 'oarlock', 'CREATE')::text", role); use[0] != "truefalse" {
			t.Errorf("%s may use and create in schema oarlock: %s", role, use[0])
		}
	}
}

type login struct{ user, url string }

// login makes a user that may only connect, until the test ends.
func (b bundle) login(t *testing.T) login {
	t.Helper()
	return login{user: b.db.RoleName("app"), url: b.db.User(t, "app")}
}
