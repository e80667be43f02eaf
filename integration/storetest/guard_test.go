package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/queue"
)

// office is a database with a login of each kind, and a worker that drives the runs.
type office struct {
	*testing.T
	db      *pgtest.DB
	store   *queue.Store
	session *queue.Session
	conn    *pgx.Conn
	logins  map[string]*pgx.Conn
	ran     map[queue.RunID][]string // names of the bodies that ran, by run
	failing string                   // the step with bodies that fail
}

// The logins by name. The owner is the submitter of the runs.
var logins = map[string]string{
	"admin": "oarlock_admin", "worker": "oarlock_worker", "owner": "oarlock_submit", "another": "oarlock_submit", "boss": "oarlock_submit", "reader": "oarlock_read",
}

func newOffice(t *testing.T) *office {
	t.Helper()
	db := pgtest.NewWithRoles(t)
	fleet := open(t, db.User(t, "fleet", "oarlock_worker"))
	o := &office{T: t, db: db, store: open(t, db.URL), conn: db.Conn(t), logins: map[string]*pgx.Conn{}, ran: map[queue.RunID][]string{}}
	for name, role := range logins {
		o.logins[name] = o.login(name, role)
	}
	session, err := fleet.Register(t.Context(), queue.Worker{
		Name: "w", Host: "h", BootID: "b", PID: 1, Version: "test", Slots: 8, Containment: "none", TTL: time.Hour,
		Offers: []string{"process", "action:approval", "action:wait", "cache"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close(context.WithoutCancel(t.Context())) })
	o.session = session
	return o
}

func (o *office) role(name string) string { return o.db.RoleName(name) }

func (o *office) login(name, group string) *pgx.Conn {
	o.Helper()
	conn, err := pgx.Connect(o.Context(), o.db.User(o.T, name, group))
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() { _ = conn.Close(context.WithoutCancel(o.Context())) })
	return conn
}

func (o *office) put(source string) {
	o.Helper()
	spec, err := dagspec.Parse("dag.yaml", []byte(source))
	if err != nil {
		o.Fatal(err)
	}
	if _, err := o.store.PutDAG(o.Context(), spec, source, ""); err != nil {
		o.Fatal(err)
	}
}

// says calls a function as the login named by its first argument, and returns the code of the error, "" for none.
func (o *office) says(who, call string, args ...any) string {
	o.Helper()
	_, err := o.logins[who].Exec(o.Context(), "SELECT oarlock."+call, args...)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	if err != nil {
		o.Fatal(err)
	}
	return ""
}

func (o *office) must(who, call string, args ...any) {
	o.Helper()
	if code := o.says(who, call, args...); code != "" {
		o.Fatalf("%s: %s: %s", who, call, code)
	}
}

func (o *office) enqueue(who, dag string) (run queue.RunID) {
	o.Helper()
	if err := o.logins[who].QueryRow(o.Context(), "SELECT oarlock.enqueue($1)", dag).Scan(&run); err != nil {
		o.Fatal(err)
	}
	return run
}

// drive drives all runs that are due, until they park or end. A wait stays open until a login marks it.
func (o *office) drive() {
	o.Helper()
	roles := storetest.Session{Claimer: o.session, Reader: o.session, Journal: o.session, Lease: o.session, LogSink: o.session}
	for deadline := time.Now().Add(time.Minute); o.queued() > 0; {
		polled, err := o.session.Poll(o.Context(), queue.Want{Slots: 50, Free: 50})
		if err != nil || time.Now().After(deadline) {
			o.Fatalf("%d runs are queued, %v", o.queued(), err)
		}
		if len(polled.Claims) == 0 { // a retried run stands where it stood before, below the point where polls begin
			if _, err := o.session.Sweep(o.Context()); err != nil {
				o.Fatal(err)
			}
		}
		for _, c := range polled.Claims {
			_, err := storetest.Drive(o.Context(), roles, c, storetest.Behaviour{Body: o.body, Wait: func(storetest.Body) dagrun.Time { return 1 << 50 }})
			if err != nil {
				o.Fatal(err)
			}
		}
	}
}

func (o *office) body(b storetest.Body) dagrun.Result {
	o.ran[b.Claim.Run] = append(o.ran[b.Claim.Run], b.Name)
	if b.Name == o.failing {
		return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 1, HasExit: true}
	}
	return dagrun.Result{Outputs: `{"v":"real"}`}
}

func (o *office) queued() (n int) {
	o.Helper()
	if err := o.conn.QueryRow(o.Context(), "SELECT count(*) FROM oarlock.runs WHERE state = 'queued'").Scan(&n); err != nil {
		o.Fatal(err)
	}
	return n
}

func (o *office) state(run queue.RunID) string {
	o.Helper()
	r, err := o.store.Get(o.Context(), run)
	if err != nil {
		o.Fatal(err)
	}
	return r.State
}

const deployDAG = `name: deploy
steps:
  - {id: approve, action: approval, with: {approvers: [%s]}}
  - {id: fetch, run: "true", outputs: [v], depends: [approve]}
  - {id: deploy, run: "true", depends: [fetch]}
`

func TestMark_OfAStepBehindAnApprovalStartsNothing(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.put(fmt.Sprintf(deployDAG, o.role("boss")))
	run := o.enqueue("owner", "deploy")
	o.drive()
	for _, call := range []string{
		"approve($1, 'approve')", "mark($1, 'approve', 'succeeded')", `mark($1, 'fetch', 'succeeded', outputs => '{"v": "mine"}')`,
		"mark($1, 'fetch', 'failed')", "mark($1, 'deploy', 'succeeded')",
	} {
		if code := o.says("owner", call, run); code != "OA008" {
			t.Errorf("%s: %q", call, code)
		}
	}
	o.drive()
	if ran := o.ran[run]; len(ran) > 0 {
		t.Errorf("without an approval there ran %v", ran)
	}
	o.must("boss", "approve($1, 'approve')", run)
	o.drive()
	if ran := o.ran[run]; !slices.Equal(ran, []string{"fetch", "deploy"}) || o.state(run) != "succeeded" {
		t.Errorf("once it was approved, there ran %v", ran)
	}
}

// The database looks at the approval as it is stored. Only the run's driver knows that a retry comes first, and that the
// retry asks for the approval anew.
func TestMark_BehindARetryThatAsksForTheApprovalAgainIsRefusedByTheDriver(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.put(fmt.Sprintf(deployDAG, o.role("boss")))
	run := o.enqueue("owner", "deploy")
	o.drive()
	o.must("boss", "approve($1, 'approve')", run)
	o.drive()
	o.ran[run] = nil
	o.must("owner", "retry($1, 'all')", run)
	o.must("owner", "mark($1, 'fetch', 'succeeded')", run)
	o.drive()
	if ran := o.ran[run]; len(ran) > 0 {
		t.Errorf("without a second approval there ran %v", ran)
	}
	controls, err := o.store.Controls(t.Context(), run)
	if err != nil || controls[len(controls)-1].Outcome != dagrun.Refused {
		t.Errorf("the mark: %+v, %v", controls[len(controls)-1], err)
	}
}

// A step may be replaced by an approval, which is given once it succeeded. A run that it keeps from a retry is not opened again.
func TestRetry_BehindAReplacementNeedsItsApproval(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.failing = "check"
	o.put("name: checked\nsteps:\n  - {id: check, run: x, on_error: [{do: replace, with: {action: approval, with: {approvers: [" + o.role("boss") + "]}}}]}\n" +
		"  - {id: ship, run: x, depends: [check]}\n")
	for decision, want := range map[string]struct{ code, state string }{"approve": {"", "queued"}, "reject": {"OA008", "failed"}} {
		run := o.enqueue("owner", "checked")
		o.drive()
		o.must("boss", decision+"($1, 'check~1')", run)
		o.drive()
		if got := o.says("owner", "retry($1, 'step', 'ship')", run); got != want.code || o.state(run) != want.state {
			t.Errorf("%s: %q, and the run is %s", decision, got, o.state(run))
		}
	}
}

func TestVersions_ASubmitterStartsNoneThatGuardsLess(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	boss := o.role("boss")
	for _, steps := range []string{
		"[{id: build, run: a}, {id: ship, run: a, depends: [build]}]",
		"[{id: ok, action: approval}, {id: ship, run: a, depends: [ok]}]",
		"[{id: ok, action: approval, with: {approvers: [" + boss + "]}}, {id: ship, run: a, depends: [ok], trigger_rule: none_failed}]",
		"[{id: ok, action: approval, with: {approvers: [" + boss + ", eve]}}, {id: ship, run: a, depends: [ok]}]",
		"[{id: ready, action: approval, with: {approvers: [" + boss + "]}}, {id: build, run: a, depends: [ready]}, {id: ship, run: b, depends: [build]}]",
		"[{id: other, run: a}]",
		"[{id: ok, action: approval, with: {approvers: [" + boss + "]}}, {id: ship, run: a, depends: [ok]}]",
	} {
		o.put("name: shipped\nsteps: " + steps + "\n")
	}
	for version, want := range map[int]string{1: "OA008", 2: "OA008", 3: "OA008", 4: "OA008", 5: "", 6: "", 7: "", 8: "OA001"} {
		for _, call := range []string{
			"enqueue('shipped', version => $1)", "enqueue_many('shipped', ARRAY['{}']::jsonb[], version => $1)",
		} {
			if got := o.says("owner", call, version); got != want {
				t.Errorf("%s in version %d: %q, not %q", call, version, got, want)
			}
		}
		operates := want
		if want == "OA008" {
			operates = ""
		}
		if got := o.says("admin", "enqueue('shipped', version => $1)", version); got != operates {
			t.Errorf("an administrator starts version %d: %q", version, got)
		}
		if got := o.says("boss", "enqueue('shipped', version => $1)", version); got != operates {
			t.Errorf("an approver starts version %d: %q", version, got)
		}
	}
}

func TestVersions_AFormerRunIsNotRetriedOnceItsStepsAreGuarded(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.put("name: shipped\nsteps: [{id: ship, run: a}]\n")
	run := o.enqueue("owner", "shipped")
	o.drive()
	o.put("name: shipped\nsteps: [{id: ok, action: approval, with: {approvers: [" + o.role("boss") + "]}}, {id: ship, run: a, depends: [ok]}]\n")
	for call, want := range map[string]string{"retry($1, 'all')": "OA008", "rerun($1)": "OA008", "rerun($1, latest => true)": ""} {
		if got := o.says("owner", call, run); got != want {
			t.Errorf("%s: %q, not %q", call, got, want)
		}
	}
	o.must("admin", "set_dag('shipped', oldest => 2)")
	for _, c := range []struct {
		who, call, want string
		args            []any
	}{
		{"owner", "retry($1, 'all')", "OA002", []any{run}},
		{"owner", "rerun($1)", "OA002", []any{run}},
		{"owner", "enqueue('shipped', version => 1)", "OA002", nil},
		{"admin", "enqueue('shipped', version => 1)", "OA002", nil},
		{"admin", "rerun($1)", "OA002", []any{run}},
		{"admin", "set_dag('shipped', oldest => 3)", "OA013", nil},
		{"admin", "set_dag('shipped', oldest => 0)", "OA013", nil},
		{"admin", "retry($1, 'all')", "", []any{run}},
	} {
		if got := o.says(c.who, c.call, c.args...); got != c.want {
			t.Errorf("%s: %s: %q, not %q", c.who, c.call, got, c.want)
		}
	}
	o.must("owner", "enqueue('shipped', version => 2)")
}
