package pgtest

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestUser_HasItsRolesAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]func(testing.TB) *DB{"New": New, "NewWithRoles": NewWithRoles} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := (&DB{URL: fresh(t).User(t, "ana", "oarlock_submit", "oarlock_read")}).Conn(t)
			rows, _ := conn.Query(t.Context(), `SELECT r.rolname FROM pg_roles r WHERE r.rolname LIKE 'oarlock\_%' AND r.rolname <> current_user
				AND pg_has_role(r.oid, 'MEMBER') ORDER BY 1`)
			roles, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil || len(roles) != 2 || roles[0] != "oarlock_read" || roles[1] != "oarlock_submit" {
				t.Errorf("it is a member of %v, %v", roles, err)
			}
			mustExec(t, conn, "SELECT FROM oarlock.runs")
		})
	}
}

func TestUser_IsGoneWithItsDatabase(t *testing.T) {
	t.Parallel()
	var role string
	t.Run("uses one", func(t *testing.T) {
		d := NewWithRoles(t)
		role = d.RoleName("owner")
		d.User(t, "owner", "oarlock_submit")
		mustExec(t, d.Conn(t), "CREATE TABLE thing (); ALTER TABLE thing OWNER TO "+role)
	})
	s := get(t)
	if exists(t, connect(t, s.base.String()), "SELECT FROM pg_roles WHERE rolname = $1", role) {
		t.Errorf("%s is still there", role)
	}
}
