package queue_test

import (
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

// webServer returns a login that may name the person for whom it acts.
func (d *clientBundle) webServer(t *testing.T) (login, url string) {
	t.Helper()
	return d.db.RoleName("web"), d.user(t, "web", "oarlock_admin", "oarlock_web")
}

func TestWithActor_RecordsWhoAsked(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	login, url := d.webServer(t)
	pooled := pgtest.Pooled(t, url, 1, false) // lends per transaction: all that follows uses one server process
	store := d.open(t, pooled)
	ana := queue.WithActor(t.Context(), "ana@example.org")
	run, err := store.Enqueue(ana, report(""))
	if err != nil {
		t.Fatal(err)
	}
	control, err := store.Control(ana, queue.Ask{Run: run, Verb: dagrun.VerbCancel})
	if err != nil || control.By != "ana@example.org via "+login {
		t.Errorf("canceled by %q, %v", control.By, err)
	}
	again, err := store.Rerun(ana, run, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	many, err := store.EnqueueMany(ana, queue.Bulk{DAG: "report", Params: []any{map[string]any{"day": "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range append(many, run, again) {
		if r := d.get(t, id); r.Actor != "ana@example.org" || r.SubmittedBy != login || r.AskedBy() != "ana@example.org via "+login {
			t.Errorf("run %d is %q of %q", id, r.Actor, r.SubmittedBy)
		}
	}
	if r := d.get(t, d.enqueue(t, store)); r.Actor != "" || r.AskedBy() != login {
		t.Errorf("the next run on the connection is %q", r.AskedBy())
	}
	_, err = store.Enqueue(ana, queue.Request{DAG: "none"})
	wantError(t, err, queue.ErrNotFound, "OA001")
}

// If the reply to the statement that sets the actor is lost, nothing was requested. If the reply to the commit is lost,
// everything was done.
func TestWithActor_OutlivesALostReply(t *testing.T) {
	t.Parallel()
	for name, tag := range map[string]string{"of the actor": "SELECT 1", "of the commit": "COMMIT"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newClientBundle(t)
			login, url := d.webServer(t)
			proxy, through := netfault.Through(t, url)
			store := d.open(t, through)
			run := d.enqueue(t, store)
			d.claim(t, run)
			ana := queue.WithActor(t.Context(), "ana")
			cut := proxy.Inject(netfault.Fault{When: netfault.Completed(tag), Do: netfault.Cut})
			got, err := store.Control(ana, queue.Ask{Run: run, Verb: dagrun.VerbCancel})
			cut.MustFire(t)
			if err != nil || got.By != "ana via "+login {
				t.Errorf("canceled by %q, %v", got.By, err)
			}
			if n := value[int](t, d, "SELECT count(*) FROM oarlock.controls"); n != 1 {
				t.Errorf("%d controls", n)
			}
			if tag != "COMMIT" {
				return
			}
			source := "name: new\nsteps: [{id: a, run: \"true\"}]\n"
			cut = proxy.Inject(netfault.Fault{When: netfault.Completed(tag), Do: netfault.Cut})
			put, err := store.PutDAG(ana, parsed(t, source), source, "")
			cut.MustFire(t)
			if err != nil || !put.IsNew || put.Version != 1 {
				t.Errorf("put %+v, %v", put, err)
			}
		})
	}
}

// A cancel by another person through the same login must not be taken for the caller's own.
func TestWithActor_IsNotTakenForAnother(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	_, url := d.webServer(t)
	proxy, through := netfault.Through(t, url)
	store := d.open(t, through)
	run := d.enqueue(t, store)
	d.claim(t, run)
	if _, err := store.Control(queue.WithActor(t.Context(), "ana"), queue.Ask{Run: run, Verb: dagrun.VerbCancel}); err != nil {
		t.Fatal(err)
	}
	cut := proxy.Inject(netfault.Fault{When: func(m netfault.Message) bool {
		return m.From == netfault.Client && m.Type == 'Q' && strings.Contains(string(m.Body), "commit")
	}, Do: netfault.Cut})
	_, err := store.Control(queue.WithActor(t.Context(), "bob"), queue.Ask{Run: run, Verb: dagrun.VerbCancel})
	cut.MustFire(t)
	wantError(t, err, queue.ErrUnknown, "")
	if n := value[int](t, d, "SELECT count(*) FROM oarlock.controls"); n != 1 {
		t.Errorf("%d controls", n)
	}
}

func TestWithActor_TakesHostileNames(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	login, url := d.webServer(t)
	store := d.open(t, url)
	for name, want := range map[string]string{
		"o'brien\"; --":             "o'brien\"; -- via " + login,
		"ana\nbob\x00":              "ana bob via " + login,
		"\xff\x00":                  login,
		strings.Repeat("x", 1<<20):  strings.Repeat("x", 200) + " via " + login,
		strings.Repeat("\xff", 300): login,
	} {
		run, err := store.Enqueue(queue.WithActor(t.Context(), name), report(""))
		if err != nil {
			t.Errorf("%.20q: %v", name, err)
			continue
		}
		if got := d.get(t, run).AskedBy(); got != want {
			t.Errorf("%.20q is %.300q, want %q", name, got, want)
		}
	}
}
