package doctor

import (
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

func TestApprovers_SaysWhichAreNoRoles(t *testing.T) {
	t.Parallel()
	db, store := newStore(t)
	look := func(source string, want Status, details ...string) {
		t.Helper()
		spec, err := dagspec.Parse("pay.yaml", []byte(source))
		if err == nil {
			_, err = store.PutDAG(t.Context(), spec, source, "pay.yaml")
		}
		if err != nil {
			t.Fatal(err)
		}
		report, err := Run(t.Context(), db.URL, quiet)
		if err != nil {
			t.Fatal(err)
		}
		c := find(t, report, "approvers")
		if c.Status != want || (c.Hint == "") != (want == OK) {
			t.Errorf("%+v, want %s", c, want)
		}
		for _, detail := range details {
			if !strings.Contains(c.Detail+"\n"+c.Hint, detail) {
				t.Errorf("%+v, want %q", c, detail)
			}
		}
	}
	look("name: own\nsteps: [{id: a, action: mygo.func, with: {approvers: no_such_role}}, {id: ok, action: approval, with: {approvers: [pg_monitor]}}]\n", OK, "is a role")
	look("name: pay\nsteps: [{id: ok, action: approval, with: {approvers: [pg_monitor, no_such_role]}}]\n",
		Warn, "no role no_such_role, which step ok of pay names as an approver: only the other approvers of the step can decide the approval", "create the role")
	look("name: two\nsteps: [{id: go, run: x, on_error: [{when: error.exit_code == 3, do: replace, with: [{action: approval, with: {approvers: [no_such_role, nor_this]}}]}]}]\n",
		Warn, "no role no_such_role or nor_this, which step go of two names as an approver: only members of oarlock_admin", "; steps with a missing approver: 2")
	look("name: pay\nsteps: [{id: ok, run: x}]\n", Warn, "step go of two")
	look("name: two\nsteps: [{id: go, run: x}]\n", OK)
}
