package queue_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/queue"
)

// wantAside wants a run to be put away with a reason, and makes it due again.
func (f *sessionBundle) wantAside(t *testing.T, s *queue.Session, run queue.RunID, reason string) {
	t.Helper()
	await.True(t, "the run is put away", func() bool {
		look(t, s)
		return value[string](t, f.clientBundle, "SELECT state FROM oarlock.runs WHERE run_id = $1", run) == "waiting"
	})
	got := value[string](t, f.clientBundle, "SELECT reason FROM oarlock.runs WHERE run_id = $1 AND wake_at > clock_timestamp() AND claim_id IS NULL", run)
	if !strings.Contains(got, reason) || !strings.Contains(got, "worker w, version v, cannot read it") {
		t.Errorf("the reason is %q", got)
	}
}

func TestPoll_PutsAwayWhatItCannotRead(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	s := f.register(t)
	ids := f.ask(t, "plain", 3)
	f.exec(t, "UPDATE oarlock.runs SET ending = 'of tomorrow' WHERE run_id = $1", ids[1])
	if got := runsOf(poll(t, s, 3).Claims); len(got) != 2 || got[0] != ids[0] || got[1] != ids[2] {
		t.Fatalf("claimed %v of %v", got, ids)
	}
	f.wantAside(t, s, ids[1], "of tomorrow")
	for range 4 {
		f.exec(t, "UPDATE oarlock.runs SET wake_at = clock_timestamp() WHERE wake_at IS NOT NULL")
		await.True(t, "somebody has tried to read it", func() bool {
			if got := turn(t, s, 1).Claims; len(got) > 0 {
				t.Fatalf("claimed %v", got[0])
			}
			return value[bool](t, f.clientBundle, "SELECT state = 'failed' OR coalesce(wake_at > clock_timestamp(), false) FROM oarlock.runs WHERE run_id = $1", ids[1])
		})
	}
	if got := value[string](t, f.clientBundle, "SELECT state || ' ' || reason FROM oarlock.runs WHERE run_id = $1", ids[1]); !strings.HasPrefix(got, "failed internal: worker w") {
		t.Errorf("after five tries it is %q", got)
	}
}

// An application may hold the row of such a run; polls go on.
func TestPoll_PutsAwayLaterWhatSomebodyHolds(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	s := f.register(t)
	ids := f.ask(t, "plain", 1)
	f.exec(t, "UPDATE oarlock.runs SET ending = 'of tomorrow'")
	conn := f.db.Conn(t)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// claims skip locked runs, so the test locks the fence instead, to keep the claim from being put away
	if _, err := tx.Exec(t.Context(), "SELECT FROM oarlock.fences WHERE channel = 'commit' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	poll(t, s, 1)
	more := f.ask(t, "plain", 1)
	if got := runsOf(poll(t, s, 1).Claims); len(got) != 1 || got[0] != more[0] {
		t.Errorf("claimed %v meanwhile", got)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.wantAside(t, s, ids[0], "of tomorrow")
}

func TestLoad_PutsAwayWhatItCannotRead(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	s := f.register(t)
	ids := f.ask(t, "plain", 3)
	claims := poll(t, s, 3).Claims
	f.exec(t, `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, request) VALUES
		($1, 0, 'running', 1, 1, 1, 1, ''), ($2, 0, 'running', 1, 1, 1, 1, 'teleport')`, ids[0], ids[1])
	f.exec(t, "ALTER TABLE oarlock.controls DROP CONSTRAINT controls_verb_check")
	f.exec(t, "INSERT INTO oarlock.controls (run_id, verb, by) VALUES ($1, 'praise', 'ann')", ids[2])
	loaded, err := s.Load(t.Context(), claims[:2])
	if err != nil || loaded[0] == nil || len(loaded[0].Saved.Tasks) != 1 || loaded[1] != nil {
		t.Fatalf("loaded %v, %v", loaded, err)
	}
	mail, err := s.ReadMail(t.Context(), []*queue.Claim{claims[2], claims[0]})
	if err != nil || mail[0] != nil || mail[1] == nil {
		t.Fatalf("mail %v, %v", mail, err)
	}
	<-claims[1].Lost()
	<-claims[2].Lost()
	f.wantAside(t, s, ids[1], "teleport")
	f.wantAside(t, s, ids[2], "praise")
}

// widest is the size of the largest answer of the server, through a proxy, to one request.
func widest(proxy *netfault.Proxy) (bytes func() int) {
	var most atomic.Int64
	now := 0
	proxy.Inject(netfault.Fault{When: func(m netfault.Message) bool {
		switch {
		case m.From == netfault.Server && m.Type == 'Z':
			now = 0
		case m.From == netfault.Server:
			now += len(m.Body)
			most.Store(max(most.Load(), int64(now)))
		}
		return false
	}})
	return func() int { return int(most.Load()) }
}

func TestLoad_BringsSoManyBytesAtOnce(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	proxy, url := netfault.Through(t, f.url)
	s := f.registerAt(t, f.open(t, url))
	f.ask(t, "plain", 9)
	claims := poll(t, s, 9).Claims
	f.exec(t, `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, outputs)
		SELECT run_id, s, 'running', 1, 1, 1, 1, jsonb_build_object('n', repeat('x', 1 << 20)) FROM oarlock.runs, generate_series(1, 4) s`)
	f.exec(t, `INSERT INTO oarlock.controls (run_id, verb, by, args)
		SELECT run_id, 'mark', 'ann', jsonb_build_object('n', repeat('x', 1 << 20)) FROM oarlock.runs, generate_series(1, 4) s`)
	most := widest(proxy)
	gone := queue.NewClaim(claims[0].Run, uuid.New())
	loaded, err := s.Load(t.Context(), append([]*queue.Claim{gone}, claims[1:]...))
	if err != nil || loaded[0] != nil {
		t.Fatal(loaded[0], err)
	}
	for i, l := range loaded[1:] {
		if l == nil || len(l.Saved.Tasks) != 4 || len(l.Mailbox.Controls) != 4 {
			t.Fatalf("run %d: %+v", i, l)
		}
	}
	mail, err := s.ReadMail(t.Context(), claims)
	if err != nil || len(mail) != 9 || len(mail[8].Controls) != 4 {
		t.Fatal(mail, err)
	}
	if got := most(); got > 2*20<<20+1<<20 {
		t.Errorf("one answer had %d MiB", got>>20)
	}
}

func TestPutAway_TakesAFenceAndAClaim(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	s := f.register(t)
	f.ask(t, "plain", 1)
	claim := poll(t, s, 1).Claims[0]
	const call = "SELECT oarlock.release_unreadable($1, $2, 1, 'x', '1 min', 5) || ' ' || state FROM oarlock.runs WHERE run_id = $1"
	if got := value[string](t, f.clientBundle, call, claim.Run, uuid.New()); got != "false running" {
		t.Errorf("with another claim: %s", got)
	}
	f.exec(t, "DELETE FROM oarlock.fences")
	if got := value[string](t, f.clientBundle, call, claim.Run, claim.ID); got != "false running" {
		t.Errorf("without a fence: %s", got)
	}
}
