package queue_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/pgcluster"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/queue"
)

// twoSteps is a DAG with runs of about four records each.
const twoSteps = "name: two\nsteps:\n  - {id: a, command: /bin/true}\n  - {id: b, command: /bin/true, depends: [a]}\n"

// outside is a store on servers that tests break.
type outside struct {
	*queue.Store
	url string
}

// open opens a store for the first of the servers that takes writes, and puts twoSteps there.
func open(t *testing.T, nodes ...*pgcluster.Node) outside {
	t.Helper()
	url := severalHosts(t, nodes...)
	store, err := queue.Open(t.Context(), queue.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	spec, err := dagspec.Parse("two.yaml", []byte(twoSteps))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutDAG(t.Context(), spec, twoSteps, "two.yaml"); err != nil {
		t.Fatal(err)
	}
	return outside{store, url}
}

// severalHosts is one URL for all nodes; they share a password.
func severalHosts(t *testing.T, nodes ...*pgcluster.Node) string {
	t.Helper()
	hosts := make([]string, len(nodes))
	var all *url.URL
	for i, n := range nodes {
		u, err := url.Parse(n.URL())
		if err != nil {
			t.Fatal(err)
		}
		all, hosts[i] = u, u.Host
	}
	all.Host = strings.Join(hosts, ",")
	q := all.Query()
	q.Set("target_session_attrs", "read-write")
	all.RawQuery = q.Encode()
	return all.String()
}

func (o outside) session(t *testing.T, name string) *queue.Session {
	t.Helper()
	s, err := o.Register(t.Context(), queue.Worker{Name: name, Host: "here", Offers: []string{"process"}, Slots: 100, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		_ = s.Close(ctx)
	})
	return s
}

func (o outside) enqueue(t *testing.T) queue.RunID {
	t.Helper()
	id, err := o.Enqueue(t.Context(), queue.Request{DAG: "two"})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// text reads one text from the database, as soon as it answers.
func (o outside) text(t *testing.T, question string, args ...any) string {
	t.Helper()
	return patiently(t, func() (answer string, err error) {
		conn, err := pgx.Connect(t.Context(), o.url)
		if err == nil {
			defer conn.Close(t.Context())
			err = conn.QueryRow(t.Context(), question, args...).Scan(&answer)
		}
		if err != nil && pglink.Classify(err) == pglink.Permanent {
			t.Fatalf("%s: %v", question, err)
		}
		return answer, err
	})
}

// drive is one drive of a run, step by step.
type drive struct {
	session *queue.Session
	claim   *queue.Claim
	run     *dagrun.Run
	now     dagrun.Time
	ready   dagrun.Ready
}

// claim polls until there is something to claim, and begins to drive it.
func claim(t *testing.T, s *queue.Session) *drive {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		polled, err := s.Poll(t.Context(), queue.Want{Slots: 1, Free: 1})
		if err == nil && len(polled.Claims) == 1 {
			return begin(t, s, polled.Claims[0])
		}
	}
	t.Fatal("nothing to claim")
	return nil
}

func begin(t *testing.T, s *queue.Session, c *queue.Claim) *drive {
	t.Helper()
	def := patiently(t, func() (*queue.Definition, error) { return s.Definition(t.Context(), c.DAGID, c.Version) })
	d := &drive{session: s, claim: c, now: dagrun.Time(time.Now().UnixMilli())}
	options := dagrun.Options{Generation: c.Row.Generation}
	if c.Fresh() {
		d.run = dagrun.New(def.Graph, options)
	} else {
		loaded := patiently(t, func() ([]*queue.Loaded, error) { return s.Load(t.Context(), []*queue.Claim{c}) })
		if loaded[0] == nil {
			t.Fatalf("run %d: the claim is gone", c.Run)
		}
		var err error
		if d.run, err = dagrun.Restore(def.Graph, options, loaded[0].Saved); err != nil {
			t.Fatal(err)
		}
	}
	d.step(t, dagrun.Event{Kind: dagrun.EvBegin})
	return d
}

// patiently reads until the database answers: its server may be about to crash, or may just have.
func patiently[T any](t *testing.T, read func() (T, error)) T {
	t.Helper()
	got, err := read()
	for end := time.Now().Add(time.Minute); err != nil; got, err = read() {
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	return got
}

func (d *drive) step(t *testing.T, e dagrun.Event) {
	t.Helper()
	d.now++
	e.At = d.now
	if err := d.run.Step(e); err != nil {
		t.Fatalf("step %v: %v", e.Kind, err)
	}
	d.ready, _ = d.run.Ready()
}

// grant gives every want what it asks for.
func (d *drive) grant(t *testing.T) {
	t.Helper()
	for _, w := range append([]dagrun.Want(nil), d.ready.Wants...) {
		d.step(t, dagrun.Event{Kind: dagrun.EvGranted, Task: w.Task})
	}
}

func (d *drive) commit(ctx context.Context) error {
	err := d.session.Commit(ctx, &queue.Batch{
		Claim: d.claim, Seen: d.claim.Inbox, Records: d.ready.Records, Leave: d.ready.Leave, Result: d.ready.Result,
	})
	if err == nil {
		d.run.Advance()
		d.ready, _ = d.run.Ready()
	}
	return err
}

// starts commits the start of every task that may start, and returns which tasks run now.
func (d *drive) starts(t *testing.T) []dagrun.Action {
	t.Helper()
	d.grant(t)
	actions := append([]dagrun.Action(nil), d.ready.Actions...)
	if err := d.commit(t.Context()); err != nil {
		t.Fatalf("commit: %v", err)
	}
	return actions
}

// finish makes the body of a task succeed.
func (d *drive) finish(t *testing.T, a dagrun.Action) {
	t.Helper()
	d.step(t, dagrun.Event{Kind: dagrun.EvFinished, Task: a.Task, Attempt: a.Attempt, Result: &dagrun.Result{}})
	d.grant(t)
}

// maxTurns bounds a drive. A drive that needs more turns waits for something that the test has forgotten.
const maxTurns = 1000

// toEnd drives a run to its end, with bodies that take no time.
func (d *drive) toEnd(ctx context.Context) error {
	for turn := 0; !d.run.Over(); turn++ {
		if turn > maxTurns {
			return errors.New("the drive does not end")
		}
		if err := d.grantAll(); err != nil {
			return err
		}
		actions := append([]dagrun.Action(nil), d.ready.Actions...)
		if err := d.commit(ctx); err != nil {
			return err
		}
		for _, a := range actions {
			if err := d.end(a); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *drive) end(a dagrun.Action) error {
	if a.Kind != dagrun.ActStart {
		return fmt.Errorf("action %v in a run of commands", a.Kind)
	}
	d.now++
	err := d.run.Step(dagrun.Event{Kind: dagrun.EvFinished, At: d.now, Task: a.Task, Attempt: a.Attempt, Result: &dagrun.Result{}})
	d.ready, _ = d.run.Ready()
	return err
}

func (d *drive) grantAll() error {
	for _, w := range append([]dagrun.Want(nil), d.ready.Wants...) {
		if err := d.run.Step(dagrun.Event{Kind: dagrun.EvGranted, At: d.now, Task: w.Task}); err != nil {
			return err
		}
	}
	d.ready, _ = d.run.Ready()
	return nil
}
