package queue_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// may is the outcome of a call: it worked, nothing of that name exists for this user, or a role is missing.
type may string

const (
	works   may = "works"
	hidden  may = "not found"
	submits may = "oarlock_submit"
	reads   may = "oarlock_read"
	admins  may = "oarlock_admin"
	decides may = "oarlock_approve"
)

func outcomeFor(t *testing.T, err error) may {
	t.Helper()
	var known *queue.Error
	switch {
	case err == nil:
		return works
	case errors.Is(err, queue.ErrNotFound):
		return hidden
	case errors.As(err, &known) && known.Code == "42501":
		for _, role := range []may{submits, reads, admins, decides, "oarlock_worker"} {
			if strings.Contains(known.Hint, string(role)) {
				return role
			}
		}
	}
	return may(err.Error())
}

func TestRoles_EachMayDoItsPartThroughTheClient(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	foreign := d.enqueue(t, d.store)
	d.claim(t, foreign)
	spec := parsed(t, reportDAG)
	call := func(err error) error { return err }
	calls := []struct {
		name                                         string
		do                                           func(*queue.Store) error
		submit, read, approve, worker, admin, nobody may
	}{
		{"Enqueue", func(s *queue.Store) error { _, err := s.Enqueue(t.Context(), report("")); return call(err) }, works, submits, submits, works, works, submits},
		{"EnqueueMany", func(s *queue.Store) error { _, err := s.EnqueueMany(t.Context(), bulk(2, true)); return err }, works, submits, submits, works, works, submits},
		{"Get", func(s *queue.Store) error { _, err := s.Get(t.Context(), foreign); return err }, hidden, works, hidden, works, works, submits},
		{"Tasks", func(s *queue.Store) error { _, err := s.Tasks(t.Context(), foreign); return err }, hidden, works, hidden, works, works, submits},
		{"Result", func(s *queue.Store) error { _, err := s.Result(t.Context(), foreign); return err }, hidden, works, submits, works, works, submits},
		{"List", func(s *queue.Store) error { _, err := s.List(t.Context(), queue.Filter{}); return err }, works, works, works, works, works, submits},
		{"Controls", func(s *queue.Store) error { _, err := s.Controls(t.Context(), foreign); return err }, works, works, works, works, works, submits},
		{"Control", func(s *queue.Store) error {
			_, err := s.Control(t.Context(), queue.Ask{Run: foreign, Verb: dagrun.VerbPause})
			return err
		}, hidden, submits, submits, works, works, submits},
		{"Approvals", func(s *queue.Store) error { _, err := s.Approvals(t.Context(), true, 9); return err }, works, works, works, works, works, decides},
		{"Approve", func(s *queue.Store) error {
			_, err := s.Control(t.Context(), queue.Ask{Run: foreign, Verb: dagrun.VerbApprove, Step: "extract"})
			return err
		}, hidden, decides, hidden, works, works, decides},
		{"Attempts", func(s *queue.Store) error { _, err := s.Attempts(t.Context(), foreign); return err }, works, works, submits, works, works, submits},
		{"Events", func(s *queue.Store) error { _, err := s.Events(t.Context(), foreign, 0); return err }, works, works, submits, works, works, submits},
		{"Workers", func(s *queue.Store) error { _, err := s.Workers(t.Context()); return err }, reads, works, reads, works, works, reads},
		{"MissingApprovers", func(s *queue.Store) error { _, err := s.MissingApprovers(t.Context(), nil); return err }, reads, works, reads, works, works, reads},
		{"MissingQueues", func(s *queue.Store) error { _, err := s.MissingQueues(t.Context(), []string{"gold"}); return err }, reads, works, reads, works, works, reads},
		{"Queues", func(s *queue.Store) error { _, err := s.Queues(t.Context()); return err }, reads, works, reads, works, works, reads},
		{"DAGs", func(s *queue.Store) error { _, err := s.DAGs(t.Context()); return err }, reads, works, reads, works, works, reads},
		{"DAGPage", func(s *queue.Store) error { _, err := s.DAGPage(t.Context(), queue.DAGFilter{Limit: 1}); return err }, reads, works, reads, works, works, reads},
		{"DAGHistory", func(s *queue.Store) error { _, err := s.DAGHistory(t.Context(), "report"); return err }, reads, works, reads, works, works, reads},
		{"GetDAG", func(s *queue.Store) error { _, err := s.GetDAG(t.Context(), "report", 0); return err }, reads, works, reads, works, works, reads},
		{"Scale", func(s *queue.Store) error { _, err := s.Scale(t.Context(), ""); return err }, reads, works, reads, works, works, reads},
		{"PutDAG", func(s *queue.Store) error { _, err := s.PutDAG(t.Context(), spec, "", ""); return err }, admins, admins, admins, admins, works, admins},
		{"SetDAG", func(s *queue.Store) error { return s.SetDAG(t.Context(), queue.DAGChange{Name: "report"}) }, admins, admins, admins, admins, works, admins},
		{"SetQueue", func(s *queue.Store) error { return s.SetQueue(t.Context(), queue.QueueChange{Name: "default"}) }, admins, admins, admins, admins, works, admins},
		{"DrainWorker", func(s *queue.Store) error { _, err := s.DrainWorker(t.Context(), "w1"); return err }, admins, admins, admins, admins, works, admins},
		{"Prune", func(s *queue.Store) error { _, err := s.Prune(t.Context(), 1); return err }, admins, admins, admins, admins, works, admins},
	}
	stores := map[string]*queue.Store{"nobody": d.open(t, d.user(t, "nobody"))}
	for _, role := range []string{"submit", "read", "approve", "worker", "admin"} {
		stores[role] = d.open(t, d.user(t, role, "oarlock_"+role))
	}
	for _, c := range calls {
		for role, want := range map[string]may{"submit": c.submit, "read": c.read, "approve": c.approve, "worker": c.worker, "admin": c.admin, "nobody": c.nobody} {
			if got := outcomeFor(t, c.do(stores[role])); got != want {
				t.Errorf("%s as %s: %s, want %s", c.name, role, got, want)
			}
		}
	}
}

func TestSubmitter_SeesAndSteersItsOwnRunsThroughTheClient(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	ana, bob := d.open(t, d.user(t, "ana", "oarlock_submit")), d.open(t, d.user(t, "bob", "oarlock_submit"))
	mine := d.enqueue(t, ana)
	d.enqueue(t, bob)
	d.claim(t, mine)
	asked, err := ana.Control(t.Context(), queue.Ask{Run: mine, Verb: dagrun.VerbPause})
	if err != nil {
		t.Fatal(err)
	}
	page, err := ana.List(t.Context(), queue.Filter{})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].ID != mine {
		t.Errorf("%+v, %v", page, err)
	}
	if tasks, err := ana.Tasks(t.Context(), mine); err != nil || len(tasks) != 3 {
		t.Errorf("%+v, %v", tasks, err)
	}
	if result, err := ana.Result(t.Context(), mine); err != nil || result.State != "running" {
		t.Errorf("%+v, %v", result, err)
	}
	if run, err := ana.Get(t.Context(), mine); err != nil || run.ID != mine {
		t.Errorf("%+v, %v", run, err)
	}
	if controls, err := ana.Controls(t.Context(), mine); err != nil || len(controls) != 1 {
		t.Errorf("%+v, %v", controls, err)
	}
	if attempts, err := ana.Attempts(t.Context(), mine); err != nil || len(attempts) != 0 {
		t.Errorf("%+v, %v", attempts, err)
	}
	d.exec(t, "INSERT INTO oarlock.events (run_id, kind, message) VALUES ($1, 'skip', 'x')", mine)
	d.exec(t, "INSERT INTO oarlock.attempts (run_id, step, item, alt, attempt, generation, state, reason) VALUES ($1, 0, '', 0, 1, 1, 'failed', 'x')", mine)
	for store, want := range map[*queue.Store]int{ana: 1, bob: 0} {
		events, err := store.Events(t.Context(), mine, 0)
		attempts, wrong := store.Attempts(t.Context(), mine)
		if err != nil || wrong != nil || len(events) != want || len(attempts) != want {
			t.Errorf("%d events and %d attempts, want %d of each: %v, %v", len(events), len(attempts), want, err, wrong)
		}
	}
	if controls, err := bob.Controls(t.Context(), mine); err != nil || len(controls) != 0 {
		t.Errorf("another's controls: %+v, %v", controls, err)
	}
	_, err = bob.AwaitControl(t.Context(), asked)
	wantError(t, err, queue.ErrNotFound, "")
}

// A worker's login with the right role gets an error about the missing grants. A login without it gets an error about the role.
func TestRegister_TellsRolesFromGrants(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	member, other := d.open(t, d.user(t, "wo", "oarlock_worker")), d.open(t, d.user(t, "re", "oarlock_read"))
	d.exec(t, "REVOKE ALL ON SCHEMA oarlock FROM oarlock_worker, oarlock_read")
	worker := queue.Worker{Name: "w", Host: "here", Offers: []string{"process"}, Slots: 1, TTL: time.Hour}
	_, err := member.Register(t.Context(), worker)
	if !errors.Is(err, queue.ErrNoGrants) || !strings.Contains(err.Error(), "oarlock migrate roles") {
		t.Errorf("a worker is told: %v", err)
	}
	if _, err := other.Register(t.Context(), worker); errors.Is(err, queue.ErrNoGrants) || outcomeFor(t, err) != "oarlock_worker" {
		t.Errorf("a reader is told: %v", err)
	}
}
