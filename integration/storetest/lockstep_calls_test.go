package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/queue"
)

// call is one call that both stores get. The verb decides what its numbers mean. Numbers that name a missing thing make
// the call do nothing.
type call struct {
	Verb    string
	A, B, C int // mostly a run or a claim, a worker, and a variant
	Luck    uint64
}

func (c call) String() string { return fmt.Sprintf("%s %d %d %d %x", c.Verb, c.A, c.B, c.C, c.Luck) }

const lockstepWorkers = 3

// nothing is the answer to a call about a missing thing.
const nothing = "null"

// verbs are the possible calls, each with the share that it gets.
var verbs = []struct {
	name string
	odds int
	do   func(*side, call) any
}{
	{"enqueue", 14, (*side).enqueue},
	{"poll", 18, (*side).poll},
	{"drive", 26, (*side).drive},
	{"control", 12, (*side).control},
	{"register", 4, (*side).register},
	{"close", 1, (*side).closeWorker},
	{"drain", 1, (*side).drain},
	{"draining", 1, (*side).draining},
	{"pause queue", 2, (*side).pauseQueue},
	{"limit queue", 2, (*side).limitQueue},
	{"pause dag", 2, (*side).pauseDAG},
	{"release", 3, (*side).release},
	{"fail run", 2, (*side).failRun},
	{"load", 4, (*side).load},
	{"mail", 3, (*side).mail},
	{"renew", 3, (*side).renew},
	{"late", 4, (*side).late},
	{"settle", 18, (*side).settle},
	{"log", 9, (*side).log},
	{"look", 3, (*side).look},
	{"sweep", 3, (*side).sweep},
	{"show", 4, (*side).show},
}

func (s *side) do(c call) string {
	s.tick()
	for _, v := range verbs {
		if v.name == c.Verb {
			return s.normal(v.do(s, c))
		}
	}
	panic("no verb " + c.Verb)
}

// lockstepDAGs are chains, fans, children, waits and limits. $P stands for the sequence's own prefix.
var lockstepDAGs = []string{
	"name: $Pchain\nqueue: $Pq\nsteps:\n  - {id: a, run: x, retry_policy: {limit: 1, interval: 1ms}}\n  - {id: b, run: x, depends: [a]}\n  - {id: c, run: x, depends: [b]}\n",
	"name: $Pfan\nqueue: $Pq\nmax_drives: 2\nsteps:\n  - {id: a, run: x, foreach: {items: [p, q]}}\n  - {id: b, run: x, depends: [a], continue_on: failed}\n  - {id: c, action: noop, depends: [b]}\n",
	"name: $Pparent\nqueue: $Pq\nsteps:\n  - {id: a, action: dag.run, with: {dag: $Pfew}}\n  - {id: b, run: x, depends: [a]}\n",
	"name: $Pfew\nqueue: $Pq\nmax_active_runs: 1\nsteps: [{id: a, run: x}]\n",
	"name: $Pgate\nqueue: $Pq\nparams: [{name: n, type: integer}]\nhandler_on: {exit: {run: x}}\nsteps:\n  - {id: a, action: approval, with: {prompt: sure}}\n  - {id: b, run: x, depends: [a]}\n",
	"name: $Ptimed\nqueue: $Pq\nsteps:\n  - {id: a, action: wait, with: {duration: 3h}}\n  - {id: b, run: x, depends: [a]}\n",
}

var lockstepNames = []string{"chain", "fan", "parent", "few", "gate", "timed"}

// inOneLane are the indexes of DAGs with runs that share a lane until a DAG is limited or paused.
var inOneLane = []int{0, 1, 4, 5}

func (s *side) enqueue(c call) any {
	r := queue.Request{DAG: s.prefix + lockstepNames[c.A%len(lockstepNames)]}
	if c.C < 3 {
		r.Key = fmt.Sprint(s.prefix, "k", c.C%2)
	}
	if c.B == 1 {
		priority := int(c.Luck%3) * 10
		r.Priority = &priority
	}
	if c.C == 7 && c.B == 2 {
		r.RunAt = s.now().Add(24 * time.Hour)
	}
	if r.DAG == s.prefix+"gate" {
		r.Params = map[string]int{"n": int(c.Luck % 2)}
	}
	run, err := s.client.Enqueue(s.ctx, r)
	if err != nil {
		return err
	}
	return s.number(run)
}

// run returns the run that a call is about, 0 for none.
func (s *side) run(c call) queue.RunID {
	if len(s.runs) == 0 {
		return 0
	}
	return s.runs[c.A%len(s.runs)]
}

func (s *side) control(c call) any {
	a := queue.Ask{Run: s.run(c)}
	if a.Run == 0 {
		return nil
	}
	step := []string{"a", "b", "c", "zz"}[c.B%2+2*int(c.Luck%16/15)]
	switch c.C {
	case 0:
		a.Verb, a.Now = dagrun.VerbCancel, c.Luck%2 == 0
	case 1:
		a.Verb = dagrun.VerbPause
	case 2:
		a.Verb = dagrun.VerbResume
	case 3:
		a.Verb, a.Mode = dagrun.VerbRetry, []dagrun.RetryMode{dagrun.RetryFailed, dagrun.RetryAll}[c.Luck%2]
	case 4:
		a.Verb, a.Mode, a.Step = dagrun.VerbRetry, []dagrun.RetryMode{dagrun.RetryFrom, dagrun.RetryStep}[c.Luck%2], step
	case 5:
		a.Verb, a.Step, a.Outputs = dagrun.VerbApprove, step, map[string]any{"yes": true}
	case 6:
		a.Verb, a.Step, a.Reason = dagrun.VerbReject, step, "no"
	default:
		a.Verb, a.Step, a.As = dagrun.VerbMark, step, []dagrun.State{dagrun.TaskSucceeded, dagrun.TaskFailed, dagrun.TaskSkipped}[c.Luck%3]
	}
	answer, err := s.client.Control(s.ctx, a)
	if err != nil {
		return err
	}
	return answer
}

// mate is a worker and its claims.
type mate struct {
	session storetest.Session
	claims  []*queue.Claim
	begun   map[*queue.Claim]bool // something may be committed under it: only another drive can go on
}

func (s *side) register(c call) any {
	w := queue.Worker{
		Name: fmt.Sprint(s.prefix, "w", c.B), Host: "h", BootID: "b", PID: 1, Version: "v", Slots: 4, Queues: []string{s.prefix + "q"},
		Offers: []string{"process", "action:noop", "action:wait", "action:approval", "action:dag.run"}, Containment: "none", TTL: time.Hour,
	}
	if before := s.workers[c.B]; before != nil {
		w.Replaces = []uuid.UUID{before.session.ID()}
		s.gone = append(s.gone, past{before.session, before.claims})
	}
	session, err := s.enroll(s.ctx, w)
	if err != nil {
		return err
	}
	s.workers[c.B] = &mate{session: session, begun: map[*queue.Claim]bool{}}
	return "registered"
}

// past is a session that was replaced, and the claims it held.
type past struct {
	session storetest.Session
	claims  []*queue.Claim
}

func (s *side) closeWorker(c call) any {
	w := s.workers[c.B]
	if w == nil {
		return nil
	}
	s.workers[c.B] = nil
	return []any{w.session.Close(s.ctx)}
}

func (s *side) drain(c call) any {
	n, err := s.admin.DrainWorker(s.ctx, fmt.Sprint(s.prefix, "w", c.B))
	return []any{n, err}
}

func (s *side) draining(c call) any {
	if w := s.workers[c.B]; w != nil {
		return []any{w.session.Drain(s.ctx)}
	}
	return nil
}

func (s *side) pauseQueue(c call) any {
	paused := c.Luck%3 != 0
	return []any{s.admin.SetQueue(s.ctx, queue.QueueChange{Name: s.prefix + "q", Paused: &paused})}
}

func (s *side) limitQueue(c call) any {
	most := int(c.Luck % 3)
	return []any{s.admin.SetQueue(s.ctx, queue.QueueChange{Name: s.prefix + "q", MaxRunning: &most})}
}

func (s *side) pauseDAG(c call) any {
	paused := c.Luck%3 != 0
	return []any{s.admin.SetDAG(s.ctx, queue.DAGChange{Name: s.prefix + lockstepNames[c.A%len(lockstepNames)], Paused: &paused})}
}

// pollAll makes a poll take all runs that it can get.
const pollAll = 8

func (s *side) poll(c call) any {
	w := s.workers[c.B]
	if w == nil {
		return nil
	}
	want := 1 + c.C%3
	if c.C == pollAll {
		want = 50
	}
	wanted := queue.Want{Slots: want, Free: want}
	switch lowest := 5; c.Luck % 8 { // new runs for slots, or runs that may need no slot
	case 0:
		wanted = queue.Want{Idle: 50}
	case 1:
		wanted.Lowest, wanted.Fair, wanted.Begun = &lowest, c.Luck%16 == 1, c.Luck%32 == 1
	}
	if _, err := w.session.Look(s.ctx, queue.Load{}); err != nil { // only a look tells a session which lanes are behind limits
		return err
	}
	if _, err := w.session.DoChores(s.ctx); err != nil {
		return err
	}
	polled, err := w.session.Poll(s.ctx, wanted)
	if err != nil {
		return err
	}
	shown := []any{polled.Hungry}
	if c.C == pollAll || wanted.Idle > 0 { // with several lanes, each store may take from another lane first
		slices.SortFunc(polled.Claims, func(a, b *queue.Claim) int { return int(a.Run - b.Run) })
	}
	for _, claim := range polled.Claims {
		w.claims = append(w.claims, claim)
		s.number(claim.Run)
		shown = append(shown, s.claim(claim))
	}
	return shown
}

// held returns the claim that a call is about, nil for none.
func (s *side) held(c call) (*mate, *queue.Claim) {
	w := s.workers[c.B]
	if w == nil || len(w.claims) == 0 {
		return nil, nil
	}
	return w, w.claims[c.A%len(w.claims)]
}

func (w *mate) drop(claim *queue.Claim) {
	w.claims = slices.DeleteFunc(w.claims, func(c *queue.Claim) bool { return c == claim })
}

var errAbandoned = errors.New("the driver is gone")

// journal is a session's journal that stops a drive after so many commits.
type journal struct {
	storetest.Journal
	left int
}

func (j *journal) Commit(ctx context.Context, b *queue.Batch) error {
	if j.left--; j.left < 0 {
		return errAbandoned
	}
	return j.Journal.Commit(ctx, b)
}

// drive drives a claim until the run ends or parks, is drained, or is abandoned.
func (s *side) drive(c call) any {
	w, claim := s.held(c)
	if claim == nil || w.begun[claim] {
		return nil
	}
	const all = 1000
	session, turns := w.session, 0
	session.Journal = &journal{Journal: w.session.Journal, left: all}
	b := storetest.Behaviour{
		Now: func() dagrun.Time { return dagrun.Time(s.now().UnixMilli()) }, Park: dagrun.Duration((2 * time.Hour).Milliseconds()),
		Body: func(b storetest.Body) dagrun.Result { return ending(c.Luck, b) },
		Wait: func(storetest.Body) dagrun.Time { return dagrun.Time(s.now().Add(3 * time.Hour).UnixMilli()) },
		Mail: func(storetest.Body) bool { return c.Luck%2 == 0 },
	}
	switch {
	case c.C < 3:
		session.Journal = &journal{Journal: w.session.Journal, left: int(c.Luck % 4)}
	case c.C == 3:
		b.Stop = func(dagrun.Ready) bool { turns++; return turns == 1+int(c.Luck%4) }
	}
	driven, err := storetest.Drive(s.ctx, session, claim, b)
	w.begun[claim] = true
	if !errors.Is(err, errAbandoned) {
		w.drop(claim)
		s.gone = append(s.gone, past{w.session, []*queue.Claim{claim}})
	}
	shown := s.claim(claim)
	if driven.Leave != nil || driven.Verdict != nil {
		delete(shown, "lost") // the claim was given back
	}
	return []any{shown, driven.Commits, driven.Leave, driven.Verdict, err}
}

// ending returns how a body ends. It depends on the luck of the drive, the name and the attempt.
func ending(luck uint64, b storetest.Body) dagrun.Result {
	h := fnv.New64a()
	fmt.Fprint(h, luck, b.Name, b.Attempt)
	switch h.Sum64() % 5 {
	case 0:
		return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 3, HasExit: true}
	case 1:
		return dagrun.Result{HasExit: true, Outputs: dagrun.JSON(fmt.Sprintf(`{"of": %q}`, b.Name))}
	default:
		return dagrun.Result{HasExit: true}
	}
}

func (s *side) release(c call) any {
	w, claim := s.held(c)
	if claim == nil {
		return nil
	}
	w.drop(claim)
	s.gone = append(s.gone, past{w.session, []*queue.Claim{claim}})
	return []any{w.session.Release(s.ctx, claim, c.Luck%2 == 0, 0)}
}

var errUndrivable = errors.New("nobody can drive it")

func (s *side) failRun(c call) any {
	w, claim := s.held(c)
	if claim == nil {
		return nil
	}
	w.drop(claim)
	s.gone = append(s.gone, past{w.session, []*queue.Claim{claim}})
	return []any{w.session.FailRun(s.ctx, claim, errUndrivable)}
}

func (s *side) load(c call) any {
	w, claim := s.held(c)
	if claim == nil {
		return nil
	}
	loaded, err := w.session.Load(s.ctx, []*queue.Claim{claim})
	if err != nil {
		return err
	}
	return loaded
}

func (s *side) mail(c call) any {
	w, claim := s.held(c)
	if claim == nil {
		return nil
	}
	boxes, err := w.session.ReadMail(s.ctx, []*queue.Claim{claim})
	if err != nil {
		return err
	}
	return boxes
}

func (s *side) renew(c call) any {
	w := s.workers[c.B]
	if w == nil {
		return nil
	}
	renewed, err := w.session.Renew(s.ctx, queue.Vitals{Busy: 1})
	if err != nil {
		return err
	}
	renewed.Now = 0
	slices.SortFunc(renewed.Mail, func(a, b queue.Mail) int { return int(a.Run - b.Run) })
	return renewed
}

// late writes under a claim that was given back, or that belongs to a replaced worker.
func (s *side) late(c call) any {
	if len(s.gone) == 0 {
		return nil
	}
	before := s.gone[c.A%len(s.gone)]
	if len(before.claims) == 0 {
		return nil
	}
	claim := before.claims[0]
	rec := claim.Row
	rec.State = dagrun.RunRunning
	task := dagrun.TaskRecord{ID: dagrun.TaskID{Step: 0}, Seq: 1000, State: dagrun.TaskFailed, Attempt: 9, Generation: claim.Row.Generation, Reason: "late"}
	var err error
	if c.C%2 == 0 {
		err = before.session.Release(s.ctx, claim, false, 0)
	} else {
		err = before.session.Commit(s.ctx, &queue.Batch{Claim: claim, Seen: claim.Inbox, Records: dagrun.Records{Run: &rec, Tasks: []dagrun.TaskRecord{task}}})
	}
	if errors.Is(err, queue.ErrClosed) { // both errors are right for a session that has ended
		err = queue.ErrLeaseLost
	}
	return []any{err}
}

// abandoned returns a claim with a drive that stopped on its way, nil for none.
func (s *side) abandoned(c call) (*mate, *queue.Claim) {
	for i := range lockstepWorkers {
		w := s.workers[(c.B+i)%lockstepWorkers]
		if w == nil {
			continue
		}
		if n := slices.IndexFunc(w.claims, func(held *queue.Claim) bool { return w.begun[held] }); n >= 0 {
			return w, w.claims[n]
		}
	}
	return nil, nil
}

// settle commits the SQL of a task before the driver records its end.
func (s *side) settle(c call) any {
	w, claim := s.abandoned(c)
	if claim == nil {
		return nil
	}
	loaded, err := w.session.Load(s.ctx, []*queue.Claim{claim})
	if err != nil || loaded[0] == nil {
		return err
	}
	for i := range loaded[0].Saved.Tasks {
		t := &loaded[0].Saved.Tasks[i]
		if t.State == dagrun.TaskRunning || c.C == 0 {
			set := queue.Settlement{Claim: claim, Task: t.ID, Attempt: t.Attempt, Outputs: `{"settled": 1}`}
			return []any{t.ID, s.settleBy(s.ctx, w.session, set)}
		}
	}
	return nil
}

// log appends the next chunk to the log of a first attempt, or repeats the chunk before it.
func (s *side) log(c call) any {
	w, run := s.workers[c.B], s.run(c)
	if w == nil || run == 0 {
		return nil
	}
	tasks, err := s.client.Tasks(s.ctx, run)
	if err != nil || tasks[0].Attempt == 0 || tasks[0].Kind != "step" {
		return err
	}
	query := queue.LogQuery{Run: run, Step: tasks[0].Step, Attempt: 1}
	stored, err := s.logs.ReadLogs(s.ctx, query)
	if err != nil {
		return err
	}
	chunk := queue.Chunk{
		Run: run, Attempt: 1, Day: queue.LogDay(dagrun.Time(s.now().UnixMilli())), Seq: len(stored), Stream: queue.StreamStdout, At: s.now(),
		Data: []byte(strings.Repeat("x", 1+c.C%2)), Final: c.C == 7,
	}
	if n := len(stored); n > 0 && (stored[n-1].Final || c.Luck%3 == 0) {
		chunk.Seq, chunk.Final = n-1, stored[n-1].Final
	}
	if chunk.Final {
		chunk.Reason = "succeeded"
	}
	err = w.session.AppendLogs(s.ctx, []queue.Chunk{chunk})
	stored, readErr := s.logs.ReadLogs(s.ctx, query)
	return []any{err, stored, readErr}
}

// look makes a worker look, with the lanes that a poll returned, as if all its runs waited for slots. Each store names
// the lanes that others may serve by ids of its own.
func (s *side) look(c call) any {
	w := s.workers[c.B]
	if w == nil {
		return nil
	}
	if _, err := w.session.Poll(s.ctx, queue.Want{}); err != nil {
		return err
	}
	load := queue.Load{Busy: 1}
	for _, claim := range w.claims {
		load.Lanes = append(load.Lanes, claim.Lane)
	}
	looked, err := w.session.Look(s.ctx, load)
	if err != nil {
		return err
	}
	queued, err := w.session.DoChores(s.ctx)
	if err != nil {
		return err
	}
	return []any{queued, len(looked.Shared) > 0}
}

func (s *side) sweep(c call) any {
	w := s.workers[c.B]
	if w == nil {
		return nil
	}
	swept, err := w.session.Sweep(s.ctx)
	if err != nil {
		return err
	}
	return []any{swept.Queued, len(swept.Lost)}
}

// show returns everything about a run.
func (s *side) show(c call) any {
	if run := s.run(c); run != 0 {
		return s.all(run)
	}
	return nil
}
