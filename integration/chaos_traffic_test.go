package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/chaos/check"
	"github.com/oarlock-dev/oarlock/integration/chaos/traffic"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/queue"
)

// client sends requests and reads, behind proxies of its own.
type client struct {
	*queue.Store
	number  int
	proxies []*netfault.Proxy
}

const chaosClients = 2

func (a *chaosBundle) openClients(t *testing.T) {
	t.Helper()
	for i := range chaosClients {
		c := &client{number: i, proxies: a.proxies(t)}
		store, err := queue.Open(t.Context(), queue.Config{URL: a.urlOf(c.proxies, ""), MaxConns: 4})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
		c.Store = store
		a.clients = append(a.clients, c)
	}
}

// answers are the answers that clients got.
type answers struct {
	start time.Time

	mu     sync.Mutex
	runs   []queue.RunID // runs that clients may look at
	undone []string      // keys of transactions that were rolled back
	calls  []check.Call
	tails  []*tail

	accepted map[queue.RunID]time.Time // when each run was accepted
}

func newAnswers() *answers {
	return &answers{start: time.Now(), accepted: map[queue.RunID]time.Time{}}
}

func (s *answers) record(c check.Call, from time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.From, c.To = from, time.Since(s.start)
	s.calls = append(s.calls, c)
}

func (s *answers) accept(run queue.RunID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = append(s.runs, run)
}

// note stores when a run was first accepted.
func (s *answers) note(run queue.RunID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.accepted[run]; !known {
		s.accepted[run] = time.Now()
	}
}

func (s *answers) any(r *rand.Rand) queue.RunID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.runs) == 0 {
		return 0
	}
	return s.runs[r.IntN(len(s.runs))]
}

// ask plays a plan.
func (a *chaosBundle) ask(plan *traffic.Plan, r *rand.Rand) {
	var asking sync.WaitGroup
	eyes := rand.New(rand.NewPCG(r.Uint64(), 0))
	a.atWork.Go(func() { a.look(eyes) })
	a.atWork.Go(a.keepSnapshot)
	a.atWork.Go(a.countLimited)
	for i := range plan.Asks {
		ask, c := &plan.Asks[i], a.clients[i%len(a.clients)]
		level := []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}[r.IntN(3)]
		asking.Go(func() {
			pause(a.ctx, ask.At)
			switch ask.Way {
			case traffic.Keyed:
				a.byKey(ask)
			case traffic.Held, traffic.Undone:
				a.inTransaction(ask, level)
			default:
				if run, err := c.Enqueue(a.ctx, request(ask)); err == nil {
					a.follow(ask, c, run)
				}
			}
		})
	}
	asking.Wait()
}

func request(ask *traffic.Ask) queue.Request {
	r := queue.Request{DAG: ask.DAG.Name, Key: ask.Key, Params: map[string]int{"n": ask.N}}
	if ask.Limit {
		r.Queue = limitedQueue
	}
	return r
}

// byKey makes all clients enqueue one run at once, until each has an answer.
func (a *chaosBundle) byKey(ask *traffic.Ask) {
	var asking sync.WaitGroup
	var first sync.Once
	for _, c := range a.clients {
		asking.Go(func() {
			for try := 0; try < 20 && a.ctx.Err() == nil; try++ {
				from := time.Since(a.asked.start)
				run, err := c.Enqueue(a.ctx, request(ask))
				call := check.Call{Client: c.number, Object: ask.Key, Verb: "ask", Answer: check.Unknown}
				if err == nil {
					call.Answer, call.Run = check.Done, int64(run)
				}
				a.asked.record(call, from)
				if err == nil {
					first.Do(func() { a.follow(ask, c, run) })
					return
				}
				pause(a.ctx, 100*time.Millisecond)
			}
		})
	}
	asking.Wait()
}

// inTransaction enqueues like a host application that has other work to do before it commits.
func (a *chaosBundle) inTransaction(ask *traffic.Ask, level pgx.TxIsoLevel) {
	conn, err := pgx.Connect(a.ctx, a.db.URL)
	if err != nil {
		return
	}
	defer conn.Close(context.WithoutCancel(a.ctx))
	tx, err := conn.BeginTx(a.ctx, pgx.TxOptions{IsoLevel: level})
	if err != nil {
		return
	}
	run, err := queue.EnqueueTx(a.ctx, tx, request(ask))
	if err != nil {
		return
	}
	pause(a.ctx, ask.Hold)
	if ask.Way == traffic.Undone {
		_ = tx.Rollback(a.ctx)
		a.asked.mu.Lock()
		a.asked.undone = append(a.asked.undone, ask.Key)
		a.asked.mu.Unlock()
		return
	}
	if tx.Commit(a.ctx) == nil {
		a.follow(ask, a.clients[0], run)
	}
}

// of a seed, since each costs a follower
const maxTails = 3

// follow makes the requests of the plan to a run, in the background.
func (a *chaosBundle) follow(ask *traffic.Ask, c *client, run queue.RunID) {
	a.asked.note(run)
	again := false
	for _, d := range ask.Demand {
		again = again || d.Verb == traffic.Again
		a.atWork.Go(func() { a.demand(c, run, d) })
	}
	if again {
		return // the run begins again, so a reader could not tell when it is over
	}
	a.asked.accept(run)
	a.asked.mu.Lock()
	defer a.asked.mu.Unlock()
	if len(a.asked.tails) < maxTails && len(ask.Demand) == 0 {
		f := &tail{run: run}
		a.asked.tails = append(a.asked.tails, f)
		a.following.Go(func() { f.read(a.ctx, c) })
	}
}

func (a *chaosBundle) demand(c *client, run queue.RunID, d traffic.Demand) {
	switch d.Verb {
	case traffic.Cancel:
		pause(a.ctx, d.After)
		a.cancelOnce(c, run, d.Now)
	case traffic.Rest:
		pause(a.ctx, d.After)
		a.insist(queue.Ask{Run: run, Verb: dagrun.VerbPause})
		pause(a.ctx, d.For)
		a.insist(queue.Ask{Run: run, Verb: dagrun.VerbResume})
	case traffic.Repeat:
		pause(a.ctx, d.After)
		a.repeat(c, run)
	case traffic.Again:
		ctx, cancel := context.WithTimeout(a.ctx, chaosFaults)
		defer cancel()
		if _, err := c.Await(ctx, run); err != nil {
			return
		}
		pause(a.ctx, d.After)
		mode := dagrun.RetryFailed
		if d.All {
			mode = dagrun.RetryAll
		}
		_, _ = c.Control(a.ctx, queue.Ask{Run: run, Verb: dagrun.VerbRetry, Mode: mode})
	}
}

// repeat retries a step of a run that has failed, or stands behind such a step. The run may refuse that: it may have ended meanwhile.
func (a *chaosBundle) repeat(c *client, run queue.RunID) {
	tasks, err := c.Tasks(a.ctx, run)
	if err != nil {
		return
	}
	for i := range tasks {
		t := &tasks[i]
		if (t.State == "failed" || t.State == "upstream_failed") && t.Step[0] != '@' {
			_, _ = c.Control(a.ctx, queue.Ask{Run: run, Verb: dagrun.VerbRetry, Mode: dagrun.RetryStep, Step: t.Step, Item: t.Item})
			return
		}
	}
}

func (a *chaosBundle) cancelOnce(c *client, run queue.RunID, now bool) {
	from, asked := time.Since(a.asked.start), time.Now()
	control, err := c.Control(a.ctx, queue.Ask{Run: run, Verb: dagrun.VerbCancel, Now: now})
	call := check.Call{Client: 10 + c.number, Object: fmt.Sprint("run ", run), Verb: "cancel", Answer: check.Unknown}
	switch {
	case err == nil && control.Outcome == dagrun.Refused:
		call.Answer, call.State = check.Refused, control.State
	case err == nil && (control.Outcome == dagrun.Accepted || control.Outcome == dagrun.Applied):
		call.Answer = check.Done
	}
	a.asked.record(call, from)
	if err == nil {
		a.survived(&control, asked, time.Now())
	}
}

// insist sends a request until it has an answer that holds. Sending the same request twice does no harm.
func (a *chaosBundle) insist(ask queue.Ask) {
	for a.ctx.Err() == nil {
		asked := time.Now()
		control, err := a.Control(a.ctx, ask)
		if err == nil && a.survived(&control, asked, time.Now()) || err != nil && !queue.Passing(err) && !errors.Is(err, queue.ErrUnknown) {
			return
		}
		pause(a.ctx, 100*time.Millisecond)
	}
}

// look reads runs, again and again.
func (a *chaosBundle) look(r *rand.Rand) {
	for a.ctx.Err() == nil {
		pause(a.ctx, 40*time.Millisecond)
		run, c := a.asked.any(r), a.clients[r.IntN(len(a.clients))]
		if run == 0 {
			continue
		}
		from := time.Since(a.asked.start)
		got, err := c.Get(a.ctx, run)
		if err == nil {
			a.asked.record(check.Call{Client: 20, Object: fmt.Sprint("run ", run), Verb: "look", Answer: check.Done, State: got.State, Generation: got.Generation}, from)
		}
	}
}

// keepSnapshot holds back the horizon of the whole server, like a long report.
func (a *chaosBundle) keepSnapshot() {
	for a.ctx.Err() == nil {
		conn, err := pgx.Connect(a.ctx, a.db.URL)
		if err == nil {
			a.holdSnapshot(conn)
		}
		pause(a.ctx, 200*time.Millisecond)
	}
}

func (a *chaosBundle) holdSnapshot(conn *pgx.Conn) {
	ctx := context.WithoutCancel(a.ctx)
	defer conn.Close(ctx)
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return
	}
	for a.ctx.Err() == nil {
		if _, err := tx.Exec(ctx, chaosStatement("snapshot")); err != nil {
			return
		}
		pause(a.ctx, time.Second)
	}
	_ = tx.Rollback(ctx)
}

// countLimited checks whether a queue has more runs than its limit (C1).
func (a *chaosBundle) countLimited() {
	for a.ctx.Err() == nil {
		pause(a.ctx, 150*time.Millisecond)
		conn, err := pgx.Connect(a.ctx, a.db.URL)
		if err != nil {
			continue
		}
		for a.ctx.Err() == nil && err == nil {
			var name string
			var most, n int
			err = conn.QueryRow(a.ctx, chaosStatement("limited")).Scan(&name, &most, &n)
			if err == nil {
				a.say("C1: queue %s has %d runs, at most %d", name, n, most)
			}
			if errors.Is(err, pgx.ErrNoRows) {
				err = nil
			}
			pause(a.ctx, 100*time.Millisecond)
		}
		_ = conn.Close(context.WithoutCancel(a.ctx))
	}
}

// logOf identifies an attempt that has a log.
type logOf struct {
	Step    int
	Item    string
	Alt     int
	Attempt int
}

// tail follows the log of a run while its connections break (G4).
type tail struct {
	run    queue.RunID
	chunks map[logOf][]queue.Chunk
	wrong  []string
	ended  bool
}

func (f *tail) read(ctx context.Context, c *client) {
	f.chunks = map[logOf][]queue.Chunk{}
	for chunk, err := range c.FollowLogs(ctx, queue.LogQuery{Run: f.run}) {
		if err != nil {
			return // its client is gone, or was refused for good: the part that arrived is checked
		}
		at := logOf{chunk.Task.Step, chunk.Task.Item, chunk.Task.Alt, chunk.Attempt}
		if want := len(f.chunks[at]); chunk.Seq != want {
			f.wrong = append(f.wrong, fmt.Sprintf("G4 run %d: %+v: chunk %d came where %d was next", f.run, at, chunk.Seq, want))
		}
		f.chunks[at] = append(f.chunks[at], chunk)
	}
	f.ended = ctx.Err() == nil
}
