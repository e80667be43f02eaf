package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/queue"
)

func TestRegister_IsIdempotentAndRefusesTheDead(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	id := uuid.New()
	same := func(w *queue.Worker) { w.ID = id }
	f.register(t, same)
	f.register(t, same)
	f.register(t, func(w *queue.Worker) { w.ID, w.Offers = id, []string{"nothing"} })
	if got := value[[]string](t, f.clientBundle, "SELECT offers FROM oarlock.worker_offers WHERE worker_id = $1", id); !slices.Equal(got, describe().Offers) {
		t.Errorf("it offers %v, want %v as when it came", got, describe().Offers)
	}
	if n := value[int](t, f.clientBundle, "SELECT count(*) FROM oarlock.workers WHERE state = 'live'") + value[int](t, f.clientBundle, "SELECT count(*) FROM oarlock.fences"); n != 1+5 {
		t.Errorf("%d rows, want a worker and five fences", n)
	}
	f.exec(t, "UPDATE oarlock.workers SET state = 'lost'")
	if _, err := f.worker.Register(t.Context(), queue.Worker{ID: id}); !errors.Is(err, queue.ErrLeaseLost) {
		t.Errorf("registered again: %v", err)
	}
	if _, err := f.worker.Register(t.Context(), queue.Worker{TTL: time.Millisecond}); err == nil {
		t.Error("a TTL of a millisecond is accepted")
	}
}

func TestRegister_RefusesConnectionsThatAPoolerLends(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	open := func(c queue.Config) *queue.Store {
		c.URL += "&default_query_exec_mode=cache_describe"
		store, err := queue.Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
		return store
	}
	byTransaction, bySession := pgtest.Pooled(t, f.url, 3, false), pgtest.Pooled(t, f.url, 10, true)
	for name, c := range map[string]queue.Config{
		"in front": {URL: byTransaction}, "though it polls": {URL: byTransaction, PollOnly: true}, "beside": {URL: f.url, Direct: byTransaction},
	} {
		store := open(c)
		s, err := store.Register(t.Context(), describe())
		for end := time.Now().Add(time.Minute); err != nil && queue.Passing(err) && time.Now().Before(end); { // a busy machine
			s, err = store.Register(t.Context(), describe())
		}
		if !errors.Is(err, queue.ErrPooled) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_ = s.Close(t.Context())
		}
	}
	if n := value[int](t, f.clientBundle, "SELECT count(*) FROM oarlock.workers"); n != 0 {
		t.Errorf("%d workers are there, refused before", n)
	}
	run := f.ask(t, "plain", 2)
	for i, c := range []queue.Config{{URL: byTransaction, Direct: f.url, PollOnly: true}, {URL: bySession}} {
		s := f.registerAt(t, open(c))
		if got := runsOf(poll(t, s, 1).Claims); !slices.Equal(got, run[i:i+1]) {
			t.Errorf("%d: claimed %v, want %v", i, got, run[i:i+1])
		}
	}
}

func TestRegister_RefusesAnotherSchema(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	for _, change := range []string{
		"INSERT INTO oarlock.schema_history (version, programs_from) VALUES (9999, 9999)",
		"DELETE FROM oarlock.schema_history WHERE version > 1",
	} {
		f.exec(t, change)
		_, err := f.worker.Register(t.Context(), describe())
		if _, ok := errors.AsType[*migrations.VersionError](err); !ok || queue.Passing(err) {
			t.Errorf("after %s: %v", change, err)
		}
	}
	if n := value[int](t, f.clientBundle, "SELECT count(*) FROM oarlock.workers"); n != 0 {
		t.Errorf("%d workers are there, refused before", n)
	}
}

func TestRegister_TakesANewerSchemaThatKeepsIt(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.exec(t, fmt.Sprintf("INSERT INTO oarlock.schema_history (version, programs_from) VALUES (%d, %d)", migrations.MaxVersion+1, migrations.MaxVersion))
	f.registerAt(t, f.worker)
	if v := value[int64](t, f.clientBundle, "SELECT schema_version FROM oarlock.workers"); v != migrations.MaxVersion {
		t.Errorf("the worker says that its program knows version %d", v)
	}
}

func TestRegister_SurvivesALostReply(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	proxy, url := netfault.Through(t, f.url)
	cut := proxy.Inject(netfault.Fault{When: netfault.Completed("INSERT 0 5"), Do: netfault.Cut})
	s := f.registerAt(t, f.open(t, url))
	cut.MustFire(t)
	if _, err := s.Renew(t.Context(), queue.Vitals{}); err != nil {
		t.Error(err)
	}
}

func TestClose_GivesBackWhatIsHeldAndEndsConnections(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	ids := f.ask(t, "plain", 2)
	s := f.register(t)
	claims := poll(t, s, 2).Claims
	for range 2 {
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range claims {
		<-c.Lost()
	}
	await.True(t, "its connections end", func() bool {
		return value[int](t, f.clientBundle, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'oarlock/' || $1::text", s.ID()) == 0
	})
	if got := value[string](t, f.clientBundle, "SELECT state || ' ' || (SELECT count(*) FROM oarlock.fences) FROM oarlock.workers"); got != "gone 0" {
		t.Errorf("worker and fences: %s", got)
	}
	if _, err := s.Poll(t.Context(), queue.Want{Slots: 1, Free: 1}); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("poll after the end: %v", err)
	}
	if _, err := s.Renew(t.Context(), queue.Vitals{Busy: 1}); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("renewal after the end: %v", err)
	}
	again := poll(t, f.register(t), 2).Claims
	if !slices.Equal(runsOf(again), ids) || again[0].Losses != 0 || again[0].Epoch != 2 {
		t.Errorf("claimed again %+v", again)
	}
}

// If a closing worker has a claim that its session does not know of, no run is lost: other workers see the fences disappear
// together with the worker's runs.
func TestClose_IsSeenWhole(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ask(t, "plain", 20)
	s, other := f.register(t), f.register(t)
	poll(t, s, 20)
	flush := f.hold(t, s.ID(), "commit")
	closed := make(chan error)
	go func() { closed <- s.Close(t.Context()) }()
	f.blocked(t, "queue/leave")
	look(t, other)
	if swept, p := sweep(t, other), poll(t, other, 1); len(swept.Lost)+swept.Queued+len(p.Claims) > 0 {
		t.Errorf("took something from a worker that is leaving: %+v, %+v", swept, p)
	}
	if err := flush.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	f.wantStates(t, "queued:20")
}

func TestDefinition_IsReadOnceAndShared(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ask(t, "plain", 1)
	one, two := f.register(t), f.register(t)
	c := poll(t, one, 1).Claims[0]
	def, err := one.Definition(t.Context(), c.DAGID, c.Version)
	if err != nil || def.Spec.Name != "plain" || def.Graph.Len() != 2 {
		t.Fatal(def, err)
	}
	if again, err := two.Definition(t.Context(), c.DAGID, c.Version); err != nil || again != def {
		t.Error("compiled twice", err)
	}
	if _, err := one.Definition(t.Context(), c.DAGID, 9); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("a version that is not there: %v", err)
	}
}

func TestEnqueueChild_TheSameAttemptAsksForTheSameRun(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ask(t, "plain", 1)
	proxy, url := netfault.Through(t, f.url)
	s := f.registerAt(t, f.open(t, url))
	c := poll(t, s, 1).Claims[0]
	ask := queue.Child{Claim: c, Task: dagrun.TaskID{Step: 1}, Attempt: 1, DAG: "report", Params: `{"day": "x"}`, Labels: map[string]string{"a": "b"}}
	cut := proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 1"), Do: netfault.Cut})
	first, err := s.EnqueueChild(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	cut.MustFire(t)
	second, err := s.EnqueueChild(t.Context(), ask)
	if err != nil || second != first {
		t.Errorf("asked again: %d, not %d: %v", second, first, err)
	}
	ask.Attempt = 2
	if third, err := s.EnqueueChild(t.Context(), ask); err != nil || third == first {
		t.Errorf("another attempt: %d %v", third, err)
	}
	if r := f.get(t, first); r.Parent != c.Run || r.Labels["a"] != "b" || r.Trigger != "child" {
		t.Errorf("%+v", r)
	}
	ask.DAG = "none"
	ask.Attempt = 3
	_, err = s.EnqueueChild(t.Context(), ask)
	wantError(t, err, queue.ErrNotFound, "OA001")
	ask.Claim = queue.NewClaim(c.Run, uuid.New())
	if _, err = s.EnqueueChild(t.Context(), ask); !errors.Is(err, queue.ErrLeaseLost) {
		t.Errorf("a claim that is gone: %v", err)
	}
}

func TestLoad_BringsWhatAFormerDriveLeft(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	ids := f.ask(t, "plain", 3)
	one := f.register(t)
	poll(t, one, 3)
	f.exec(t, `INSERT INTO oarlock.tasks (run_id, step, item, alt, state, attempt, generation, epoch, seq, reason, failure_kind, exit_code, signal, outputs,
		retries, request, request_by, marked, grown, settled, next_attempt_at, started_at, attempt_at, log_day) VALUES
		($1, 1, '', 0, 'running', 2, 1, 1, 5, '', NULL, NULL, NULL, '{"b": [1, 2], "a": "é"}', 1, 'mark', 'ann', 'skipped', NULL,
		 '{"attempt": 2, "outputs": {"n": 1}}', NULL, '2026-11-20 01:02:03.004Z', '2026-11-20 01:02:04Z', '2026-11-20'),
		($1, 0, 'x', 1, 'retrying', 1, 1, 1, 4, 'exit 3', 'exit', 3, 0, NULL, 0, '', '', '', '{"generation": 1, "first_alt": 1, "count": 2}',
		 '{"attempt": 9}', '2026-11-20 02:00:00Z', NULL, NULL, '2026-11-20'),
		($2, 0, '', 0, 'succeeded', 1, 1, 1, 9, '', NULL, 0, NULL, NULL, 0, '', '', '', NULL, '{"attempt": 1}', NULL, NULL, NULL, NULL)`, ids[0], ids[1])
	f.exec(t, `INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data, final)
		SELECT '2026-11-20', $1, 1, '', 0, a, n, 1, clock_timestamp(), '', a = 1 FROM generate_series(1, 2) a, generate_series(0, 6) n`, ids[0])
	f.exec(t, "SELECT oarlock.cancel($1), oarlock.approve($1, 'b', outputs => '{\"x\": 1}')", ids[0])
	two := f.register(t, func(w *queue.Worker) { w.Replaces = []uuid.UUID{one.ID()} })
	claims := poll(t, two, 3).Claims
	gone := queue.NewClaim(ids[2], uuid.New())
	asked := []*queue.Claim{claims[1], gone, claims[0]}
	loaded, err := two.Load(t.Context(), asked)
	if err != nil || len(loaded) != 3 || loaded[1] != nil || loaded[0] == nil || loaded[2] == nil {
		t.Fatal(loaded, err)
	}
	first := loaded[2]
	at := dagrun.Time(time.Date(2026, 11, 20, 1, 2, 3, 4e6, time.UTC).UnixMilli())
	want := []dagrun.TaskRecord{
		{
			ID: dagrun.TaskID{Item: "x", Alt: 1}, Seq: 4, Generation: 1, State: dagrun.TaskRetrying, Attempt: 1, Reason: "exit 3", Kind: dagrun.KindExit,
			ExitCode: 3, HasExit: true, NextAt: at + 3_476_996, Growth: &dagrun.Growth{Generation: 1, FirstAlt: 1, Count: 2},
		},
		{
			ID: dagrun.TaskID{Step: 1}, Seq: 5, Generation: 1, State: dagrun.TaskRunning, Attempt: 2, Outputs: `{"a":"é","b":[1,2]}`, Retries: 1,
			Request: dagrun.RequestMark, RequestBy: "ann", Marked: dagrun.TaskSkipped, StartedAt: at, AttemptAt: at + 996,
		},
	}
	if diff := cmp.Diff(want, first.Saved.Tasks); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(claims[0].Row, first.Saved.Run); diff != "" {
		t.Error(diff)
	}
	day := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	if diff := cmp.Diff([]queue.LogEnd{{Task: dagrun.TaskID{Step: 1}, Attempt: 2, Day: day, Next: 7}}, first.Logs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]queue.Settled{{Task: dagrun.TaskID{Step: 1}, Attempt: 2, Outputs: `{"n":1}`}}, first.Settled); diff != "" {
		t.Error(diff)
	}
	if m := first.Mailbox; m.Inbox != 2 || len(m.Controls) != 2 || m.Controls[0].Verb != dagrun.VerbCancel || m.Controls[1].Step != "b" || !json.Valid(m.Controls[1].Args) {
		t.Errorf("mail %+v", m)
	}
	if other := loaded[0]; len(other.Saved.Tasks) != 1 || len(other.Settled)+len(other.Logs)+len(other.Mailbox.Controls) != 0 {
		t.Errorf("loaded %+v", other)
	}
	mail, err := two.ReadMail(t.Context(), asked)
	if err != nil || len(mail) != 3 || mail[1] != nil || mail[2].Inbox != 2 || mail[0].Inbox != 0 {
		t.Errorf("mail %v %v", mail, err)
	}
}

func TestLoad_ManyRunsInFewRoundTrips(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ask(t, "plain", 450)
	s := f.register(t)
	claims := poll(t, s, 450).Claims
	f.exec(t, `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq)
		SELECT run_id, 0, 'running', run_id % 7 + 1, 1, 1, 1 FROM oarlock.runs`)
	slices.Reverse(claims)
	loaded, err := s.Load(t.Context(), claims)
	if err != nil || len(loaded) != len(claims) {
		t.Fatal(len(loaded), err)
	}
	for i, l := range loaded {
		if l == nil || len(l.Saved.Tasks) != 1 || l.Saved.Tasks[0].Attempt != int(claims[i].Run%7)+1 {
			t.Fatalf("run %d: %+v", claims[i].Run, l)
		}
	}
	if none, err := s.Load(t.Context(), nil); err != nil || len(none) != 0 {
		t.Error(none, err)
	}
}

func TestClose_WithoutADeadlineEndsThoughTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ask(t, "plain", 1)
	proxy, url := netfault.Through(t, f.url)
	s := f.registerAt(t, f.open(t, url))
	claim := poll(t, s, 1).Claims[0]
	s.SetCloseLimit(50 * time.Millisecond)
	proxy.Freeze()
	defer proxy.Thaw()
	done := make(chan error, 1)
	go func() { done <- s.Commit(t.Context(), &queue.Batch{Claim: claim, Seen: claim.Inbox}) }()
	closed := make(chan error, 1)
	go func() { closed <- s.Close(context.Background()) }()
	for _, c := range []chan error{closed, done} {
		select {
		case err := <-c:
			if err == nil {
				t.Error("nothing went wrong, without a database")
			}
		case <-time.After(patience):
			t.Fatal("it does not come to an end")
		}
	}
}
