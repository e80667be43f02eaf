package integration

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/chaos/check"
	"github.com/oarlock-dev/oarlock/integration/chaos/traffic"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	statements "github.com/oarlock-dev/oarlock/sql"
)

// awaitAll waits until every run is over (S6).
func (a *chaosBundle) awaitAll(t *testing.T) bool {
	t.Helper()
	for end := time.Now().Add(chaosSettle); time.Now().Before(end); {
		if n, err := one[int](t.Context(), a.superURL(), "open"); err == nil && n == 0 {
			return true
		}
		pause(t.Context(), 100*time.Millisecond)
	}
	return false
}

// stopClients waits for the clients that read logs, which end with their runs, and stops the others.
func (a *chaosBundle) stopClients() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.following.Wait()
	}()
	select {
	case <-done:
	case <-time.After(2 * patience):
		a.say("G4: a follower goes on though its run is over")
	}
	a.stop()
	<-done
	a.atWork.Wait()
}

// ended is a run at the end of a seed.
type ended struct {
	id            int64
	dag           string
	state, reason string
	generation    int
	epoch         int
	canceled      bool // a cancel was accepted
	queue         string
	key           string // by which its DAG limits its runs
	n             string // its param n, by which pools count
}

// judge checks everything that a seed left.
func (a *chaosBundle) judge(t *testing.T, plan *traffic.Plan, over bool, lag time.Duration) *chaosResult {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := connect(ctx, a.superURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	j := &judge{chaosBundle: a, t: t, ctx: ctx, conn: conn, plan: plan, res: newChaosResult()}
	j.res.faults, j.res.lag = a.faults, lag
	j.runs = j.readRuns()
	j.trail = j.readTrail()
	for _, what := range a.broken {
		j.say(what)
	}
	j.state(over)
	j.witness()
	j.logs()
	j.api()
	j.processes()
	return j.res
}

// judge compares what happened with the promises.
type judge struct {
	*chaosBundle
	t     *testing.T
	ctx   context.Context
	conn  *pgx.Conn
	plan  *traffic.Plan
	runs  []ended
	trail []check.Change
	seen  []check.Sight
	res   *chaosResult
}

// starved bounds how long the machine may keep processes from running. Beyond this time, rules that depend on a kill in
// time decide nothing. The bound is the rest of a lease after the moment at which a guard must have acted.
const starved = chaosTTL * 2 / 10

func (j *judge) say(what string) {
	timely := strings.HasPrefix(what, "W1") || strings.HasPrefix(what, "W3") || strings.HasPrefix(what, late) || strings.HasPrefix(what, "C2") || strings.HasPrefix(what, "C5")
	if j.res.lag > starved && timely {
		j.res.inconclusive = append(j.res.inconclusive, what)
		return
	}
	j.res.violations = append(j.res.violations, what)
}

func (j *judge) sayAll(broken []check.Violation) {
	for _, v := range broken {
		j.say(v.String())
	}
}

func readAll[T any](j *judge, name string, scan func(pgx.CollectableRow) (T, error), args ...any) []T {
	j.t.Helper()
	rows, _ := j.conn.Query(j.ctx, chaosStatement(name), args...)
	all, err := pgx.CollectRows(rows, scan)
	if err != nil {
		j.t.Fatalf("%s: %v", name, err)
	}
	return all
}

func (j *judge) readRuns() []ended {
	return readAll(j, "ended", func(row pgx.CollectableRow) (e ended, err error) {
		return e, row.Scan(&e.id, &e.dag, &e.state, &e.reason, &e.generation, &e.epoch, &e.canceled, &e.queue, &e.key, &e.n)
	})
}

func (j *judge) readTrail() []check.Change {
	return readAll(j, "trail", func(row pgx.CollectableRow) (c check.Change, err error) {
		return c, row.Scan(&c.Tx, &c.At, &c.Run, &c.Task, &c.Shell, &c.Was, &c.Is, &c.Attempt, &c.WasAttempt, &c.Generation, &c.ResetBy, &c.Epoch, &c.RunEpoch, &c.Claim, &c.Asked, &c.GaveBack)
	})
}

// timely are the invariants that compare times, which a stepped clock makes meaningless. The trail is checked instead.
var timely = []string{
	"invariants/s2_changed_after_end", "invariants/s5_started_too_early", "invariants/s7_written_after_loss",
	"invariants/s2b_parked_past_its_time", "invariants/s6_passed_over", "invariants/s6_owner_silent", "invariants/s10_agenda_overdue",
}

// acknowledged are the invariants of logs that a lossy failover may break, since the standby may lack the last chunks.
var acknowledged = []string{"invariants/g1_log_gap", "invariants/g2_after_the_last"}

// meaningless reports whether an invariant proves nothing in this scene.
func (s scene) meaningless(name string) bool {
	return s == clockScene && slices.Contains(timely, name) || s == asyncScene && slices.Contains(acknowledged, name)
}

// state checks S1 to S8, in the stored rows and in the order of their changes.
func (j *judge) state(over bool) {
	if !over {
		for _, r := range j.runs {
			if !slices.Contains([]string{"succeeded", "failed", "canceled"}, r.state) {
				j.say(fmt.Sprintf("S6: run %d is still %s (%s)", r.id, r.state, r.reason))
			}
		}
	}
	edges := map[int64]map[string][]string{}
	for _, r := range j.runs {
		edges[r.id] = j.dag(r.dag).edges()
		if r.epoch > 1 {
			j.res.counts["takeovers: drives after a run's first"] += r.epoch - 1
		}
		if r.state == "canceled" {
			j.res.counts["runs that ended canceled"]++
		}
		if over {
			j.foretold(r)
		}
	}
	j.sayAll(check.Trail(j.trail, edges))
	j.limits()
	j.sharing()
	j.kept()
	j.schedules()
	for _, name := range pgtest.Invariants() {
		if j.scene.meaningless(name) {
			continue
		}
		rows, _ := j.conn.Query(j.ctx, statements.Named(name))
		broken, err := pgx.CollectRows(rows, pgx.RowToMap)
		if err != nil {
			j.t.Errorf("%s: %v", name, err)
		}
		for _, row := range broken {
			j.say(fmt.Sprintf("%s: %v", name, row))
		}
	}
	type times struct {
		run       int64
		step      string
		wrote, ok int
	}
	for _, o := range readAll(j, "once", func(row pgx.CollectableRow) (o times, err error) {
		return o, row.Scan(&o.run, &o.step, &o.wrote, &o.ok)
	}) {
		j.say(fmt.Sprintf("once: run %d: %s wrote its row %d times and succeeded %d times", o.run, o.step, o.wrote, o.ok))
	}
	j.res.counts["runs"], j.res.counts["changes of the audit trail"] = len(j.runs), len(j.trail)
}

// schedules checks that each fire time was decided once (S11), by its policy, and that each end of a run was attended to
// (S10).
func (j *judge) schedules() {
	for _, broken := range readAll(j, "schedules_amiss", pgx.RowTo[string]) {
		j.say("S11: " + broken)
	}
	type count struct {
		outcome string
		times   int
	}
	for _, c := range readAll(j, "schedules_counts", func(r pgx.CollectableRow) (c count, err error) { return c, r.Scan(&c.outcome, &c.times) }) {
		j.res.counts["fire times "+c.outcome] += c.times
	}
}

// limits checks C1 in the trail, because samples would miss most moments.
func (j *judge) limits() {
	kinds, most := map[int64][]string{}, map[string]int{"queue " + limitedQueue: limitOfQueue}
	for _, d := range j.plan.DAGs {
		if d.Limit > 0 {
			most["DAG "+d.Name] = d.Limit
		}
	}
	for _, r := range j.runs {
		kinds[r.id] = []string{"queue " + r.queue, "DAG " + r.dag}
		if n := j.plan.ByKey(r.dag); n > 0 {
			kind := fmt.Sprintf("key %s of DAG %s", r.key, r.dag)
			kinds[r.id], most[kind] = append(kinds[r.id], kind), n
		}
	}
	j.sayAll(check.Limits(j.trail, kinds, most))
}

// sharing checks rule C2 in the samples, and rule C3 in the trail.
func (j *judge) sharing() {
	s := &j.shared
	j.sayAll(s.Broken)
	moves, broken := check.Moves(j.trail)
	maps.Copy(j.res.counts, map[string]int{
		"sharing: moments looked at": s.Moments, "sharing: moments when the sampler was late": s.Unsure, "sharing: moments with a free slot": s.Open,
		"sharing: waits for a slot": s.Waits, "sharing: waits on a worker": s.Held, "sharing: waits beside a free slot": s.Beside, "sharing: moves": moves,
	})
	j.res.longest = s.Longest
	if j.scene != clockScene { // C3 compares times of the server's clock, which that scene sets back
		j.sayAll(broken)
	}
}

// kept checks that nothing went away: accepted runs (S6) and rows that are only added (S2). It also checks that each
// attempt has at most one child run, and that the child is there (A1).
func (j *judge) kept() {
	for run, at := range j.asked.accepted {
		there := slices.ContainsFunc(j.runs, func(r ended) bool { return r.id == int64(run) })
		if !there && !j.lost.touches(at, at) {
			j.say(fmt.Sprintf("S6: run %d was accepted and is not there", run))
		}
	}
	type row struct {
		what   string
		run    int64
		number int
	}
	for _, x := range readAll(j, "tampered", func(r pgx.CollectableRow) (x row, err error) { return x, r.Scan(&x.what, &x.run, &x.number) }) {
		j.say(fmt.Sprintf("S2: run %d: %s, %d times", x.run, x.what, x.number))
	}
	type family struct {
		run                           int64
		step                          string
		attempts, children, succeeded int
	}
	for _, f := range readAll(j, "children", func(r pgx.CollectableRow) (f family, err error) {
		return f, r.Scan(&f.run, &f.step, &f.attempts, &f.children, &f.succeeded)
	}) {
		j.say(fmt.Sprintf("A1: run %d: %s has %d children, %d of them succeeded, in %d attempts", f.run, f.step, f.children, f.succeeded, f.attempts))
	}
}

type dag struct{ *traffic.DAG }

func (j *judge) dag(name string) dag {
	i := slices.IndexFunc(j.plan.DAGs, func(d *traffic.DAG) bool { return d.Name == name })
	return dag{j.plan.DAGs[i]}
}

func (d dag) edges() map[string][]string {
	all := map[string][]string{}
	for _, s := range d.Steps {
		all[s.ID] = s.Parents
	}
	return all
}

// foretold compares the end of a run with the predicted one.
func (j *judge) foretold(r ended) {
	d := j.dag(r.dag)
	want := d.Ends
	if r.canceled {
		want = "canceled"
	}
	if r.state != want {
		j.say(fmt.Sprintf("S4: run %d of %s ended %s (%s), it had to end %s", r.id, r.dag, r.state, r.reason, want))
	}
	if r.canceled {
		return
	}
	ends := map[string]string{}
	for _, c := range j.trail {
		if c.Run == r.id {
			ends[c.Task] = c.Is
		}
	}
	for _, s := range d.Steps {
		if got := ends[s.ID]; got != s.Ends {
			j.say(fmt.Sprintf("S4: run %d of %s: %s, %s, ended %q, it had to end %s", r.id, r.dag, s.ID, s.Kind, got, s.Ends))
		}
		if s.Ends != "succeeded" {
			continue
		}
		for i := range s.Items {
			if got := ends[fmt.Sprintf("%s/%d", s.ID, i)]; got != "succeeded" {
				j.say(fmt.Sprintf("S4: run %d of %s: item %d of %s ended %q, it had to succeed", r.id, r.dag, i, s.ID, got))
			}
		}
	}
}

// excusedIDs returns the ids of workers with tasks that may live on.
func (j *judge) excusedIDs() check.Excused {
	ids := check.Excused{}
	type life struct {
		id  string
		pid int
	}
	for _, l := range readAll(j, "workers", func(row pgx.CollectableRow) (l life, err error) { return l, row.Scan(&l.id, &l.pid) }) {
		if j.excused[l.pid] {
			ids[l.id] = true
		}
	}
	return ids
}

// witness checks W1 to W3. Where acknowledged commits were lost, their records are lost too, and a task may run again.
func (j *judge) witness() {
	f, err := os.Open(filepath.Join(j.dir, "witness"))
	if err != nil {
		j.t.Errorf("no task ever ran: %v", err)
		return
	}
	defer f.Close()
	if j.seen, err = check.ReadWitness(f); err != nil {
		j.t.Fatal(err)
	}
	j.res.counts["lines of the witness"] = len(j.seen)
	if j.scene != asyncScene {
		excused := j.excusedIDs()
		j.sayAll(check.Witness(j.seen, j.trail, excused))
		j.pools(excused)
	}
	tasks := map[string]bool{}
	for _, s := range j.seen {
		if s.What == "start" {
			j.res.counts["attempts"]++
			tasks[fmt.Sprint(s.Run, s.Task)] = true
		}
	}
	j.res.counts["tasks"] = len(tasks)
}

// pools checks C5. Where a failover loses acknowledged commits it may lose permits, too, so the caller leaves that scene out.
func (j *judge) pools(excused check.Excused) {
	runs := map[int64]*ended{}
	for i := range j.runs {
		runs[j.runs[i].id] = &j.runs[i]
	}
	full, broken := check.Pools(j.seen, func(s *check.Sight) (takes []check.Take) {
		r := runs[s.Run]
		if r == nil {
			return nil // S6 or S2 says so
		}
		for _, u := range j.dag(r.dag).Takes(check.StepOf(s.Task), s.OfPublish()) {
			place := "pool " + u.Name
			if u.ByN {
				place += " by key " + r.n
			}
			takes = append(takes, check.Take{Place: place, Weight: u.Weight, Slots: u.Slots})
		}
		return takes
	}, excused)
	j.res.counts["pools: bodies that took the last slot"] = full
	j.sayAll(broken)
}

// stored is a row of the statement logs.
type stored struct {
	run                int64
	step, item         string
	attempt            int
	state, failureKind string
	seqs               []int32
	finals             []bool
	data               [][]byte
	dropped            []int64
}

// logs checks G1 to G4.
func (j *judge) logs() {
	all := readAll(j, "logs", func(row pgx.CollectableRow) (s stored, err error) {
		return s, row.Scan(&s.run, &s.step, &s.item, &s.attempt, &s.state, &s.failureKind, &s.seqs, &s.finals, &s.data, &s.dropped)
	})
	seen, epochs := map[string]bool{}, map[string]int{}
	moved := map[string]bool{} // attempts with a driver that was lost before their publish: the log of the body may lack its end
	for _, s := range j.seen {
		attempt := fmt.Sprintf("%d %s#%d", s.Run, s.Task, s.Attempt)
		seen[s.What+" "+attempt] = true
		moved[attempt] = moved[attempt] || epochs[attempt] != 0 && epochs[attempt] != s.Epoch
		epochs[attempt] = s.Epoch
	}
	var logs []check.Log
	for i := range all {
		s := &all[i]
		name := s.step
		if s.item != "" {
			name += "/" + s.item
		}
		l := check.Log{Run: s.run, Attempt: fmt.Sprintf("%s#%d", name, s.attempt), Lost: s.failureKind == "lost"}
		l.Complete = seen[fmt.Sprintf("end %d %s", s.run, l.Attempt)] && !moved[fmt.Sprintf("%d %s", s.run, l.Attempt)] && s.failureKind != "lost" && s.state != "canceled" && s.state != "paused"
		l.Over = seen[fmt.Sprintf("start %d %s", s.run, l.Attempt)]
		if l.Lost {
			j.res.counts["attempts whose driver was lost"]++
		}
		for k := range s.seqs {
			l.Chunks = append(l.Chunks, check.LogChunk{Seq: int(s.seqs[k]), Final: s.finals[k], Data: s.data[k], Dropped: s.dropped[k]})
			j.res.counts["bytes of logs"] += len(s.data[k])
		}
		wrote, err := os.ReadFile(filepath.Join(j.dir, "copies", fmt.Sprintf("%d:%s:%s:%d", s.run, s.step, s.item, s.attempt)))
		l.Wrote, l.Known = wrote, err == nil
		logs = append(logs, l)
	}
	if j.scene != asyncScene {
		j.sayAll(check.Logs(logs))
		j.tails()
	}
}

// tails checks G4: each follower got the stored log. If it followed a run to its end, it got the log of every attempt.
func (j *judge) tails() {
	for _, f := range j.asked.tails {
		for _, wrong := range f.wrong {
			j.say(wrong)
		}
		rows, _ := j.conn.Query(j.ctx, chaosStatement("logged"), f.run)
		logged, err := pgx.CollectRows(rows, pgx.RowToStructByPos[logOf])
		if err != nil {
			j.t.Fatalf("logs of run %d: %v", f.run, err)
		}
		for at := range f.chunks {
			if !slices.Contains(logged, at) {
				logged = append(logged, at)
			}
		}
		for _, at := range logged {
			j.tail(f, at)
		}
	}
}

func (j *judge) tail(f *tail, at logOf) {
	var got, want []byte
	for _, c := range f.chunks[at] {
		got = append(got, c.Data...)
	}
	if err := j.conn.QueryRow(j.ctx, chaosStatement("log"), f.run, at.Step, at.Item, at.Alt, at.Attempt).Scan(&want); err != nil {
		j.t.Errorf("log of run %d, %v: %v", f.run, at, err)
	}
	if f.ended && (!bytes.Equal(got, want) || len(f.chunks[at]) == 0) || !bytes.HasPrefix(want, got) {
		j.say(fmt.Sprintf("G4: run %d: %+v: a follower got %d bytes in %d chunks, stored are %d, or others", f.run, at, len(got), len(f.chunks[at]), len(want)))
	}
}

// api checks the answers that clients got (A1 to A3), and that requests of rolled back transactions left no trace.
func (j *judge) api() {
	calls := j.asked.calls
	j.res.counts["calls of clients"] = len(calls)
	if j.scene == asyncScene {
		calls = j.certain(calls)
	}
	for _, key := range j.asked.undone { // by key, because the run's number may be given to another run
		if c := j.audit(key); c.Count != 0 {
			j.say(fmt.Sprintf("A1: run %d is there, its transaction was rolled back", c.Run))
		}
	}
	for _, ask := range j.plan.Asks {
		if ask.Way != traffic.Keyed {
			continue
		}
		c := j.audit(ask.Key)
		c.From, c.To = check.AtTheEnd, check.AtTheEnd+1
		calls = append(calls, c)
	}
	j.sayAll(check.Calls(calls, patience))
}

func (j *judge) audit(key string) check.Call {
	c := check.Call{Client: 30, Object: key, Verb: "audit", Answer: check.Done}
	if err := j.conn.QueryRow(j.ctx, chaosStatement("keyed"), key).Scan(&c.Count, &c.Run); err != nil {
		j.t.Fatal(err)
	}
	return c
}

// processes looks for processes that outlived their worker (W4).
func (j *judge) processes() {
	type life struct {
		id  string
		pid int
	}
	for _, l := range readAll(j, "workers", func(row pgx.CollectableRow) (l life, err error) { return l, row.Scan(&l.id, &l.pid) }) {
		if left := carriers(l.id); len(left) > 0 {
			j.say(fmt.Sprintf("W4: processes %v of worker %s are left", left, l.id))
		}
	}
}
