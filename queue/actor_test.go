package queue_test

import (
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/queue"
)

func TestActor_IsRecordedForAWebServer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	store := d.open(t, d.db.User(t, "web", "oarlock_admin", "oarlock_web"))
	ana := queue.WithActor(t.Context(), "ana@example.org")
	login := d.db.RoleName("web")
	want := "ana@example.org via " + login
	run, err := store.Enqueue(ana, queue.Request{DAG: "report", Params: map[string]string{"day": "x"}})
	if err != nil {
		t.Fatal(err)
	}
	found, err := store.Get(t.Context(), run)
	if err != nil || found.AskedBy() != want || found.SubmittedBy != login {
		t.Errorf("the run is by %q, %q, %v", found.AskedBy(), found.SubmittedBy, err)
	}
	control, err := store.Control(ana, queue.Ask{Run: run, Verb: dagrun.VerbPause})
	if err != nil || control.By != want {
		t.Errorf("the control is by %q, %v", control.By, err)
	}
	if err := store.SetQueue(ana, queue.QueueChange{Name: "default", Paused: new(true)}); err != nil {
		t.Fatal(err)
	}
	if by := value[string](t, d, "SELECT paused_by FROM oarlock.queues WHERE name = 'default'"); by != want {
		t.Errorf("the queue is paused by %q", by)
	}
	// The same connections, without an actor.
	other, err := store.Control(t.Context(), queue.Ask{Run: run, Verb: dagrun.VerbResume})
	if err != nil || other.By != login {
		t.Errorf("the next control is by %q, %v", other.By, err)
	}
}

func TestActor_CannotBeForged(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	eve := d.open(t, d.db.Login(t, "oarlock_submit"))
	forged := queue.WithActor(t.Context(), "ana@example.org")
	run, err := eve.Enqueue(forged, queue.Request{DAG: "report", Params: map[string]string{"day": "x"}})
	if err != nil {
		t.Fatal(err)
	}
	login := d.db.RoleName("submit")
	control, err := eve.Control(forged, queue.Ask{Run: run, Verb: dagrun.VerbPause})
	if err != nil || control.By != login {
		t.Errorf("the control is by %q, %v", control.By, err)
	}
	if found, err := eve.Get(t.Context(), run); err != nil || found.AskedBy() != login {
		t.Errorf("the run is by %q, %v", found.AskedBy(), err)
	}
	for name, want := range map[string]string{"o'brien\n\x1b[31m": "o'brien  [31m", strings.Repeat("x", 1000): strings.Repeat("x", 200)} {
		store := d.open(t, d.db.User(t, "w"+want[:1], "oarlock_submit", "oarlock_web"))
		run, err := store.Enqueue(queue.WithActor(t.Context(), name), queue.Request{DAG: "report", Params: map[string]string{"day": "x"}})
		if err != nil {
			t.Fatal(err)
		}
		if found, err := store.Get(t.Context(), run); err != nil || found.Actor != want {
			t.Errorf("%q is recorded as %q, %v", name, found.Actor, err)
		}
	}
}

// A control whose reply was lost is found again by who asked.
func TestActor_FindsItsLostControl(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	proxy, url := netfault.Through(t, d.db.User(t, "web", "oarlock_admin", "oarlock_web"))
	store := d.open(t, url)
	run := d.enqueue(t, d.store)
	cut := proxy.Inject(netfault.Fault{When: netfault.Completed("COMMIT"), Do: netfault.Cut})
	got, err := store.Control(queue.WithActor(t.Context(), "ana"), queue.Ask{Run: run, Verb: dagrun.VerbPause})
	cut.MustFire(t)
	if err != nil || !strings.HasPrefix(got.By, "ana via ") {
		t.Errorf("%+v, %v", got, err)
	}
	if n := value[int](t, d, "SELECT count(*) FROM oarlock.controls"); n != 1 {
		t.Errorf("%d controls", n)
	}
}
