package queue_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/queue"
)

func TestPoll_ClaimsWhatIsDueInItsOrder(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	ids := f.ask(t, "plain", 5)
	s := f.register(t)
	p := poll(t, s, 3)
	if !slices.Equal(runsOf(p.Claims), ids[:3]) || p.Hungry {
		t.Errorf("claimed %v of %v, hungry %v", runsOf(p.Claims), ids, p.Hungry)
	}
	c := p.Claims[0]
	if !c.Fresh() || c.Epoch != 1 || c.DAG != "plain" || c.Version != 1 || c.Queue != "default" || string(c.Params) != "{}" || c.Root != c.Run || c.Row.Generation != 1 {
		t.Errorf("claim %+v", c)
	}
	if p := poll(t, s, 3); !slices.Equal(runsOf(p.Claims), ids[3:]) || !p.Hungry {
		t.Errorf("claimed %v of %v, hungry %v", runsOf(p.Claims), ids, p.Hungry)
	}
	if p := poll(t, s, 3); len(p.Claims) > 0 || !p.Hungry {
		t.Errorf("claimed %v twice", p.Claims)
	}
	r, err := s.Renew(t.Context(), queue.Vitals{Busy: 2})
	if err != nil || r.Desired != queue.WorkerLive || r.Now == 0 || len(r.Mail) > 0 {
		t.Errorf("renewal %+v %v", r, err)
	}
	loaded, err := s.Load(t.Context(), p.Claims)
	if err != nil || len(loaded) != len(p.Claims) {
		t.Errorf("loaded %v %v", loaded, err)
	}
	f.wantStates(t, "running:5")
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	f.wantStates(t, "queued:5")
}

func TestPoll_APauseIsObeyedByTheVeryNextPoll(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ask(t, "plain", 3)
	s := f.register(t)
	poll(t, s, 1)
	f.exec(t, "SELECT oarlock.set_dag('plain', paused => true)")
	if p := poll(t, s, 1); len(p.Claims) > 0 {
		t.Error("claimed of a paused DAG")
	}
	f.exec(t, "SELECT oarlock.set_dag('plain', paused => false)")
	if p := poll(t, s, 1); len(p.Claims) != 1 {
		t.Error("the DAG goes on, its runs do not")
	}
	f.exec(t, "SELECT oarlock.set_queue('default', paused => true)")
	if p := poll(t, s, 1); len(p.Claims) > 0 {
		t.Error("claimed of a paused queue")
	}
	f.exec(t, "SELECT oarlock.set_queue('default', paused => false)")
	if p := poll(t, s, 1); len(p.Claims) != 1 {
		t.Error("the queue goes on, its runs do not")
	}
}

func TestPoll_ANewLaneIsServedByTheVeryNextPoll(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	s := f.register(t)
	poll(t, s, 1)
	f.put(t, "name: urgent\npriority: 7\nsteps: [{id: a, run: \"true\"}]\n")
	f.ask(t, "plain", 2)
	f.ask(t, "urgent", 1)
	p := poll(t, s, 2)
	if len(p.Claims) != 2 || p.Claims[0].DAG != "urgent" || p.Claims[0].Priority != 7 || p.Claims[1].DAG != "plain" {
		t.Errorf("claimed %+v", p.Claims)
	}
}

// A transaction that began before the poll enters its run below the place that the poll has read.
func TestPoll_ClaimsWhatIsCommittedLate(t *testing.T) {
	t.Parallel()
	for name, told := range map[string]bool{"soon after": false, "long after, and it is told": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newSessionBundle(t)
			s := f.register(t)
			listening(t, s)
			sweep(t, s)
			poll(t, s, 1) // it is hungry, so a transaction that enters runs notifies it
			late, err := f.db.Conn(t).Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := late.Exec(t.Context(), "SELECT oarlock.enqueue('plain')"); err != nil {
				t.Fatal(err)
			}
			f.ask(t, "plain", 3)
			if p := poll(t, s, 2); len(p.Claims) != 2 {
				t.Fatalf("claimed %v", p.Claims)
			}
			if told {
				s.RaiseCursors(f.now(t))
			}
			if err := late.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for left := 2; left > 0; {
				if told {
					if _, err := s.Hear(ctx); err != nil {
						t.Fatalf("%d are not claimed: %v", left, err)
					}
				}
				claims := poll(t, s, 2).Claims
				if left -= len(claims); !told && left > 0 {
					t.Fatalf("the next poll claims %v", runsOf(claims))
				}
			}
		})
	}
}

func TestPoll_ClaimsWhatComesBackFirst(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]func(*testing.T, *sessionBundle, *queue.Session, *queue.Claim){
		"its worker was lost": func(t *testing.T, f *sessionBundle, s *queue.Session, _ *queue.Claim) {
			f.exec(t, "DELETE FROM oarlock.fences WHERE worker_id = $1", s.ID())
			if swept := sweep(t, f.register(t)); swept.Queued != 1 {
				t.Fatalf("queued %d", swept.Queued)
			}
		},
		"its worker hands it on": func(t *testing.T, _ *sessionBundle, s *queue.Session, c *queue.Claim) {
			if err := s.Release(t.Context(), c, false, 0); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newSessionBundle(t)
			ids := f.ask(t, "plain", 4)
			leaving, s := f.register(t), f.register(t)
			claim := poll(t, leaving, 1).Claims[0]
			poll(t, s, 2)
			back(t, f, leaving, claim)
			if p := poll(t, s, 1); len(p.Claims) != 1 || p.Claims[0].Run != ids[0] {
				t.Errorf("claimed %v, want %d first", runsOf(p.Claims), ids[0])
			}
		})
	}
}

func TestLook_EndsWhatWaitedTooLongAndTellsItsParent(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.put(t, "name: hurried\nqueue_timeout: 1ms\nworker_selector: {gpu: \"1\"}\nsteps: [{id: a, run: \"true\"}]\n")
	parent := f.ask(t, "plain", 1)[0]
	s := f.register(t)
	claim := poll(t, s, 1).Claims[0]
	child, err := s.EnqueueChild(t.Context(), queue.Child{Claim: claim, Attempt: 1, DAG: "hurried"})
	if err != nil {
		t.Fatal(err)
	}
	await.True(t, "the child is over", func() bool {
		look(t, s)
		return f.get(t, child).Over()
	})
	if r := f.get(t, child); r.State != "failed" || r.Reason != "queue_timeout" {
		t.Errorf("%s %s", r.State, r.Reason)
	}
	mail, err := s.ReadMail(t.Context(), []*queue.Claim{claim})
	if err != nil || len(mail) != 1 || len(mail[0].Controls) != 1 || mail[0].Controls[0].Verb != dagrun.VerbChildEnded || mail[0].Inbox != 1 {
		t.Errorf("mail %+v %v", mail, err)
	}
	if r, err := s.Renew(t.Context(), queue.Vitals{}); err != nil || len(r.Mail) != 1 || r.Mail[0] != (queue.Mail{Run: parent, Inbox: 1}) {
		t.Errorf("renewal %+v %v", r, err)
	}
}

// If the reply to a claim was lost, the next sweep queues its runs again. They are then claimed as if they had not been claimed
// before.
func TestPoll_AClaimsLostReplyIsMended(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dag    string
		reply  netfault.Match // with this message the claim is complete
		family bool
	}{
		"in an open lane": {dag: "plain", reply: netfault.Completed("SELECT 3")},
		"behind a limit":  {dag: "few", reply: netfault.Completed("SELECT 3")},
		"of a family":     {dag: "plain", reply: rowWith("plain"), family: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newSessionBundle(t)
			f.put(t, "name: few\nmax_active_runs: 100\nsteps: [{id: a, run: \"true\"}]\n")
			ids := f.ask(t, c.dag, 3)
			proxy, url := netfault.Through(t, f.url)
			s := f.registerAt(t, f.open(t, url), func(w *queue.Worker) {
				if c.family {
					ids = ids[:1]
					w.Only = ids[0]
				}
			})
			poll(t, s, 0)
			cut := proxy.Inject(netfault.Fault{When: c.reply, Do: netfault.Cut})
			p, _ := s.Poll(t.Context(), queue.Want{Slots: 3, Free: 3}) // it may try again
			cut.MustFire(t)
			if n := value[int](t, f.clientBundle, "SELECT count(*) FROM oarlock.runs WHERE state = 'running'"); len(p.Claims) != 0 || n != len(ids) {
				t.Fatalf("claimed %v, and for nobody %d, want %d", runsOf(p.Claims), n, len(ids))
			}
			poll(t, s, 0) // on the new connection
			if !look(t, s).Sweep {
				t.Error("nobody would look for what was claimed for nobody")
			}
			if swept := sweep(t, s); len(swept.Lost) > 0 {
				t.Errorf("lost %v", swept.Lost)
			}
			sweep(t, s) // finds runs that the sweep before gave back below its cursors, if the test was slow
			f.wantMended(t, poll(t, s, 3).Claims, ids)
		})
	}
}

// A poll that tries again after a lost reply claims other runs, under other ids. The runs of the first try are given back.
func TestPoll_ALostReplyMixesNoClaims(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	ids := f.ask(t, "plain", 6)
	proxy, url := netfault.Through(t, f.url)
	s := f.registerAt(t, f.open(t, url))
	poll(t, s, 0)
	cut := proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 3"), Do: netfault.Cut})
	p, err := s.Poll(t.Context(), queue.Want{Slots: 3, Free: 3})
	cut.MustFire(t)
	if err != nil || !slices.Equal(runsOf(p.Claims), ids[3:]) {
		t.Fatalf("claimed %v, %v, want %v", runsOf(p.Claims), err, ids[3:])
	}
	f.wantStates(t, "running:6")
	sweep(t, s)
	sweep(t, s) // finds runs that the sweep before gave back below its cursors, if the test was slow
	f.wantMended(t, poll(t, s, 3).Claims, ids[:3])
}

// rowWith matches a row of a result that contains a text. Only a claim contains the name of its DAG.
func rowWith(text string) netfault.Match {
	return func(m netfault.Message) bool {
		return m.From == netfault.Server && m.Type == 'D' && bytes.Contains(m.Body, []byte(text))
	}
}

// wantMended wants these runs to have one claim more than any session knows of, and no loss.
func (f *sessionBundle) wantMended(t *testing.T, claims []*queue.Claim, ids []queue.RunID) {
	t.Helper()
	if !slices.Equal(sorted(runsOf(claims)), ids) {
		t.Fatalf("claimed %v, want %v", runsOf(claims), ids)
	}
	for _, c := range claims {
		if c.Epoch != 2 || c.Losses != 0 || c.Begun {
			t.Errorf("run %d is claimed with epoch %d, %d losses, begun before: %v", c.Run, c.Epoch, c.Losses, c.Begun)
		}
	}
}

// The caller gave up, so no caller got the reply.
func TestPoll_WhatIsClaimedForNobodyIsMended(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	ids := f.ask(t, "plain", 2)
	proxy, url := netfault.Through(t, f.url)
	s := f.registerAt(t, f.open(t, url))
	poll(t, s, 0)
	held := proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 2"), Do: netfault.Hold})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := s.Poll(ctx, queue.Want{Slots: 2, Free: 2})
		done <- err
	}()
	held.MustFire(t)
	cancel()
	if err := <-done; err == nil {
		t.Error("no error")
	}
	held.Release()
	if p := poll(t, s, 2); len(p.Claims) > 0 {
		t.Errorf("claimed %v, which the database has claimed", runsOf(p.Claims))
	}
	if !look(t, s).Sweep {
		t.Error("nobody would look for what was claimed for nobody")
	}
	sweep(t, s)
	f.wantMended(t, poll(t, s, 2).Claims, ids)
}

func sorted(ids []queue.RunID) []queue.RunID {
	slices.Sort(ids)
	return ids
}

func TestPoll_ManyClaimersClaimEachRunOnce(t *testing.T) {
	t.Parallel()
	const sessions, runs = 16, 2_500
	f := newSessionBundle(t)
	f.ask(t, "plain", runs)
	all := make([]*queue.Session, sessions)
	for i := range all {
		all[i] = f.register(t, func(w *queue.Worker) { w.TTL = time.Hour }) // it never renews
	}
	var (
		wg      sync.WaitGroup
		claimed atomic.Int64
		mu      sync.Mutex
		times   = map[queue.RunID]int{}
	)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for _, s := range all {
		wg.Go(func() {
			for claimed.Load() < runs && ctx.Err() == nil {
				p, err := s.Poll(ctx, queue.Want{Slots: 50, Free: 50})
				if err != nil {
					t.Error(err)
					return
				}
				claimed.Add(int64(len(p.Claims)))
				mu.Lock()
				for _, c := range p.Claims {
					times[c.Run]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if claimed.Load() != runs || len(times) != runs {
		t.Errorf("%d claims of %d runs, want %d", claimed.Load(), len(times), runs)
	}
	if n := value[int](t, f.clientBundle, "SELECT count(DISTINCT claim_id) FROM oarlock.runs WHERE state = 'running' AND epoch = 1"); n != runs {
		t.Errorf("%d runs are claimed in the database", n)
	}
}

// However many slots are free, one answer does not grow too large for a worker. The next poll brings more.
func TestPoll_ClaimsSoManyAtOnce(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.put(t, "name: few\nmax_active_runs: 1000\nsteps: [{id: a, run: \"true\"}]\n")
	s := f.register(t)
	for _, dag := range []string{"plain", "few"} {
		f.ask(t, dag, queue.MaxClaims+1)
		look(t, s)
		for i, want := range []int{queue.MaxClaims, 1} {
			if p := poll(t, s, 1000); len(p.Claims) != want || p.Hungry != (want == 1) {
				t.Errorf("%s: poll %d claimed %d, and is hungry: %v", dag, i+1, len(p.Claims), p.Hungry)
			}
		}
	}
}

func TestPoll_WritesHungerOnlyWhereItBeginsOrEnds(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	s := f.register(t)
	version := func() string {
		return value[string](t, f.clientBundle, "SELECT xmin || ' ' || (hungry > 0) FROM oarlock.workers WHERE worker_id = $1", s.ID())
	}
	poll(t, s, 5)
	hungry := version()
	poll(t, s, 3)
	if got := version(); got != hungry {
		t.Errorf("the worker's row was %s, is %s", hungry, got)
	}
	f.ask(t, "plain", 2)
	poll(t, s, 2)
	if got := version(); !strings.HasSuffix(got, "false") {
		t.Errorf("a worker that has all it wants is hungry: %s", got)
	}
}
