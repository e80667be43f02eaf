package queue_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/queue"
)

// remembering is a host that remembers one address of every installation.
type remembering []string

func (r *remembering) Recall(string) []string                { return *r }
func (r *remembering) Remember(_ string, addresses []string) { *r = addresses }

// afresh returns a store of a new process, on a host that remembers.
func (f *sessionBundle) afresh(t *testing.T, memory queue.Memory) *queue.Store {
	t.Helper()
	return openFor(t, queue.Config{URL: f.url, Memory: memory})
}

func TestRegister_RefusesWhatMayBeACopy(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.register(t)
	for change, passes := range map[string]bool{"database = 1": false, "server = 1": false, "timeline = 7": true} {
		f.exec(t, "UPDATE oarlock.installation SET "+change)
		f.exec(t, "DELETE FROM oarlock.workers WHERE state <> 'live'")
		_, err := f.afresh(t, nil).Register(t.Context(), describe())
		if _, refused := errors.AsType[*migrations.CopyError](err); !refused || queue.Passing(err) || queue.Unvouched(err) != passes {
			t.Errorf("%s: %v", change, err)
		}
		f.exec(t, "UPDATE oarlock.installation SET served_at = NULL")
		f.exec(t, "SELECT oarlock.vouch()")
	}
	f.exec(t, "UPDATE oarlock.installation SET database = 1")
	if _, err := f.afresh(t, nil).Register(t.Context(), describe()); err == nil {
		t.Error("a copy was served")
	}
	if n := value[int](t, f.clientBundle, "SELECT count(*) FROM oarlock.workers"); n != 1 {
		t.Errorf("%d workers are announced, want the first alone", n)
	}
	if ids := f.ask(t, "plain", 1); len(ids) != 1 {
		t.Error("nothing can be asked for")
	}
}

func TestRegister_TakesANewTimelineWhereItServedBefore(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	var here, elsewhere, nothing remembering
	f.registerAt(t, f.afresh(t, &here))
	elsewhere = remembering{"elsewhere:5432/app"}
	for name, c := range map[string]struct {
		memory *remembering
		goesOn bool
	}{"it served it here": {&here, true}, "it served it elsewhere": {&elsewhere, false}, "it remembers nothing": {&nothing, false}} {
		f.exec(t, "UPDATE oarlock.installation SET timeline = 7")
		before := slices.Clone(*c.memory)
		s, err := f.afresh(t, c.memory).Register(t.Context(), describe())
		if (err == nil) != c.goesOn {
			t.Errorf("%s: %v", name, err)
		}
		if s != nil {
			_ = s.Close(t.Context())
		}
		if !slices.Equal(before, *c.memory) {
			t.Errorf("%s: it remembers %v, and before %v", name, *c.memory, before)
		}
	}
	f.exec(t, "SELECT oarlock.vouch()")
	f.registerAt(t, f.afresh(t, &elsewhere)) // the name in DNS, or the pooler, has changed
	if !slices.Equal(elsewhere, here) {
		t.Errorf("it remembers %v, not %v", elsewhere, here)
	}
}

// cut ends the connections of a session, as a failover does.
func (f *sessionBundle) cut(t *testing.T, s *queue.Session) {
	t.Helper()
	f.exec(t, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'oarlock/"+s.ID().String()+"'")
}

func TestSession_GoesOnInANewTimelineAndNowhereElse(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	s := f.register(t)
	f.exec(t, "UPDATE oarlock.installation SET timeline = 7")
	f.cut(t, s)
	polls(t, s, func() bool {
		return value[int](t, f.clientBundle, "SELECT count(*) FROM oarlock.installation i, oarlock.place() p WHERE i.timeline = p.timeline") == 1
	})
	if _, err := s.Renew(t.Context(), queue.Vitals{}); err != nil {
		t.Errorf("a renewal after it vouched: %v", err)
	}
	f.registerAt(t, f.afresh(t, nil)) // this host remembers nothing

	id := f.ask(t, "plain", 1)[0]
	f.exec(t, "UPDATE oarlock.installation SET database = 1")
	f.cut(t, s)
	polls(t, s, func() bool {
		_, err := s.Renew(t.Context(), queue.Vitals{})
		return errors.Is(err, queue.ErrLeaseLost)
	})
	if n := value[int](t, f.clientBundle, "SELECT count(*) FROM oarlock.runs WHERE run_id = $1 AND epoch = 0", id); n != 1 {
		t.Error("it claimed where another database was served")
	}
}

// A copy has the claims and fences of its original. Whatever a session does first on the copy, the session ends and has written
// nothing.
func TestSession_WritesNothingInACopyBeforeItPolls(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	type write struct {
		name    string
		session *queue.Session
		do      func(*queue.Session, *queue.Claim) error
	}
	commit := func(s *queue.Session, c *queue.Claim) error {
		return s.Commit(t.Context(), &queue.Batch{Claim: c, Seen: c.Inbox, Records: dagrun.Records{Notes: []dagrun.Note{{At: 5, Kind: "skip", Text: "a note"}}}})
	}
	renew := func(s *queue.Session, _ *queue.Claim) error {
		_, err := s.Renew(t.Context(), queue.Vitals{Busy: 7})
		return err
	}
	logs := func(s *queue.Session, c *queue.Claim) error {
		return s.AppendLogs(t.Context(), []queue.Chunk{{Run: c.Run, Attempt: 1, Day: queue.LogDay(dagrun.Time(time.Now().UnixMilli()))}})
	}
	var writes []write
	var claims []*queue.Claim
	for _, used := range []bool{true, false} { // whether its connections were made before
		for name, do := range map[string]func(*queue.Session, *queue.Claim) error{"commit": commit, "renew": renew, "append logs": logs} {
			f.ask(t, "plain", 1)
			s := f.register(t)
			c := poll(t, s, 1).Claims[0]
			if used {
				if err := do(s, c); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			writes, claims = append(writes, write{name, s, do}), append(claims, c)
		}
	}
	const written = "SELECT concat_ws(' ', (SELECT count(*) FROM oarlock.events), (SELECT count(*) FROM oarlock.log_chunks), (SELECT sum(beat) FROM oarlock.workers))"
	f.exec(t, "UPDATE oarlock.installation SET database = 1")
	for _, w := range writes {
		f.cut(t, w.session)
	}
	before := value[string](t, f.clientBundle, written)
	for i, w := range writes {
		err := w.do(w.session, claims[i])
		for end := time.Now().Add(10 * time.Second); err != nil && !errors.Is(err, queue.ErrLeaseLost) && time.Now().Before(end); {
			err = w.do(w.session, claims[i])
		}
		if !errors.Is(err, queue.ErrLeaseLost) {
			t.Errorf("%s: %v, want the end of the session", w.name, err)
		}
	}
	if got := value[string](t, f.clientBundle, written); got != before {
		t.Errorf("events, chunks and beats are %s, and before %s", got, before)
	}
}

// polls makes a session poll without finding anything until ok is true, because its connections must be made again first.
func polls(t *testing.T, s *queue.Session, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		_, _ = s.Poll(t.Context(), queue.Want{})
		if so() {
			return
		}
		if time.Now().After(end) {
			t.Fatal("waited in vain")
		}
	}
}
