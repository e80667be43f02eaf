package storetest

import (
	"errors"
	"strings"
	"sync"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

var commitPromises = []promise{
	{"what is committed is restored exactly", restoredExactly},
	{"items are shown in the order of their list", itemsInOrder},
	{"a later record wins, an earlier one changes nothing", laterWins},
	{"a stale claim writes nothing", staleWritesNothing},
	{"a moved inbox refuses a finish, and nothing of it is written", inboxRefuses},
	{"an accepted cancel always wins", cancelWins},
	{"a finished run changes no more", finishedIsFinal},
	{"a finished task changes only for a control, once", finishedTaskIsReset},
	{"a record that cannot be stored ends its run alone", refusedAlone},
	{"a run that its worker fails has failed, whatever was asked of it", failRunFails},
	{"a stale claim fails nothing", staleFailsNothing},
	{"losses count until a task finishes", lossesCount},
	{"a release gives a run back as it is", releaseGivesBack},
	{"a drained run goes on mid-graph", drainedGoesOn},
	{"a settled result outlives its driver", settledOutlives},
}

// richRows returns rows that together use every field of a task's row.
func richRows(at dagrun.Time) []dagrun.TaskRecord {
	return []dagrun.TaskRecord{
		{
			ID: dagrun.TaskID{Step: 0}, Seq: 1, Generation: 1, State: dagrun.TaskRunning, StartedAt: at, AttemptAt: at,
			Growth: &dagrun.Growth{Generation: 1, Items: []dagrun.Item{{Key: "x/1", Value: `{"a":1}`}, {Key: "ü", Value: `"ü"`}}},
		},
		{
			ID: dagrun.TaskID{Step: 0, Item: "x/1"}, Seq: 2, Generation: 1, State: dagrun.TaskSucceeded, Attempt: 2, ExitCode: 0, HasExit: true,
			Outputs: `{"n":1,"t":"é"}`, Retries: 1, StartedAt: at, AttemptAt: at + 5, FinishedAt: at + 9, CacheKey: "c",
		},
		{
			ID: dagrun.TaskID{Step: 0, Item: "ü"}, Seq: 3, Generation: 1, State: dagrun.TaskReplaced, Attempt: 1, Kind: dagrun.KindExit, ExitCode: 3,
			HasExit: true, Reason: "exit 3", StartedAt: at, AttemptAt: at, FinishedAt: at + 3,
			Growth: &dagrun.Growth{Generation: 1, ResetBy: 5, Rule: 1, FirstAlt: 1, Count: 2}, ResetBy: 5, ResetFrom: dagrun.TaskCanceled,
		},
		{
			ID: dagrun.TaskID{Step: 0, Item: "ü", Alt: 2}, Seq: 4, Generation: 1, State: dagrun.TaskRetrying, Attempt: 1, Kind: dagrun.KindSignal,
			Signal: 9, ExitCode: 137, HasExit: true, Reason: "killed", Retries: 2, PublishTries: 1, Publishing: true, NextAt: at + 60_000,
			StartedAt: at, AttemptAt: at + 1,
		},
		{
			ID: dagrun.TaskID{Step: 1}, Seq: 5, Generation: 1, State: dagrun.TaskRunning, Attempt: 1, Request: dagrun.RequestMark, RequestBy: "ann",
			Marked: dagrun.TaskSkipped, Reason: "marked by ann", StartedAt: at, AttemptAt: at, Outputs: `{"kept":true}`,
		},
		{
			ID: dagrun.TaskID{Step: 2}, Seq: 6, Generation: 1, State: dagrun.TaskWaiting, Attempt: 1, Deadline: at + 90_000, NextAt: at + 70_000,
			Ref: "42", StartedAt: at, AttemptAt: at,
		},
		{ID: dagrun.TaskID{Step: 3}, Seq: 7, Generation: 1, State: dagrun.TaskFailed, Tolerated: true, Attempt: 1, Kind: dagrun.KindLost, Reason: "lost", StartedAt: at, AttemptAt: at, FinishedAt: at},
	}
}

const rich = `
name: rich
steps:
  - {id: each, run: "true", foreach: {items: [x], key: "item"}, on_error: [{when: "error.exit_code == 1", do: fail}, {do: replace, with: [{run: a}, {run: b}]}]}
  - {id: b, run: "true"}
  - {id: c, action: wait, with: {duration: 1s}}
  - {id: d, run: "true"}
`

func restoredExactly(s *setup) {
	id := s.start(strings.TrimPrefix(rich, "\n"))
	a := s.worker()
	c := s.claimOne(a)
	at := s.now(a)
	rows := richRows(at)
	rec := driven(c)
	rec.Ending, rec.EndingBy, rec.EndingText, rec.PausedBy = dagrun.EndingFailFast, "bo", "each", "cy"
	rec.Deadline, rec.Left, rec.Tolerated = at+100_000, 0, 1
	rec.Counts = dagrun.Counts{Total: 7, Open: 4, Succeeded: 1, Failed: 1, Replaced: 1}
	rec.State = dagrun.RunPaused
	former := dagrun.AttemptRecord{
		ID: dagrun.TaskID{Item: "x/1"}, Attempt: 1, Generation: 1, State: dagrun.TaskFailed, Kind: dagrun.KindTimeout, ExitCode: 124, HasExit: true,
		Reason: "timed out", StartedAt: at, FinishedAt: at + 4,
	}
	s.must(a.Commit(s.Context(), &queue.Batch{Claim: c, Records: dagrun.Records{Tasks: rows, Attempts: []dagrun.AttemptRecord{former}, Run: rec}}))
	b := s.worker(replacing(a))
	again := s.claimOne(b)
	if again.Run != id || again.Epoch != 2 || again.Losses != 1 || again.ID == c.ID || again.Fresh() {
		s.Errorf("claimed again: %+v", again)
	}
	want := *rec
	want.State = dagrun.RunQueued
	s.same("the run's row", again.Row, want)
	loaded := s.load(b, again)
	s.same("the run's row, loaded", loaded.Saved.Run, want)
	for i := range rows {
		rows[i].Seq, loaded.Saved.Tasks[i].Seq = 0, 0
	}
	s.same("the tasks", plainRows(s, loaded.Saved.Tasks), plainRows(s, rows))
}

func itemsInOrder(s *setup) {
	id := s.start(strings.TrimPrefix(rich, "\n"))
	a := s.worker()
	c := s.claimOne(a)
	at := s.now(a)
	keys := []string{"lr0.1", "lr0.001", "10", "9", "a"}
	each := dagrun.TaskRecord{ID: dagrun.TaskID{Step: 0}, Seq: 1, Generation: 1, State: dagrun.TaskRunning, StartedAt: at, AttemptAt: at, Growth: &dagrun.Growth{Generation: 1}}
	rows := []dagrun.TaskRecord{each}
	for i, key := range keys {
		each.Growth.Items = append(each.Growth.Items, dagrun.Item{Key: key, Value: "1"})
		rows = append(rows, dagrun.TaskRecord{ID: dagrun.TaskID{Item: key}, Seq: int64(i + 2), Generation: 1, State: dagrun.TaskReady})
	}
	rec := driven(c)
	rec.Counts = dagrun.Counts{Total: 7, Open: 7}
	s.must(a.Commit(s.Context(), &queue.Batch{Claim: c, Records: dagrun.Records{Tasks: rows, Run: rec}}))
	tasks, err := s.Client.Tasks(s.Context(), id)
	s.must(err)
	var shown []string
	for i := range tasks {
		if tasks[i].Item != "" {
			shown = append(shown, tasks[i].Item)
		}
	}
	s.same("the items", shown, keys)
}

// plainRows spells the JSON of rows in one way.
func plainRows(s *setup, rows []dagrun.TaskRecord) []dagrun.TaskRecord {
	s.Helper()
	plain := func(j dagrun.JSON) dagrun.JSON {
		if j == "" {
			return ""
		}
		return dagrun.JSON(spell(decoded(s, []byte(j))))
	}
	out := make([]dagrun.TaskRecord, len(rows))
	for i, r := range rows {
		r.Outputs = plain(r.Outputs)
		if r.Growth != nil {
			g := *r.Growth
			g.Items = nil
			for _, item := range r.Growth.Items {
				g.Items = append(g.Items, dagrun.Item{Key: item.Key, Value: plain(item.Value)})
			}
			r.Growth = &g
		}
		if r.State != dagrun.TaskSucceeded { // only a task that succeeded keeps its cache key
			r.CacheKey = ""
		}
		out[i] = r
	}
	return out
}

func laterWins(s *setup) {
	id := s.start(chain)
	w := s.worker()
	c := s.claimOne(w)
	at := s.now(w)
	s.must(s.record(w, c, row(0, 3, dagrun.TaskSucceeded, at), row(1, 4, dagrun.TaskRunning, at)))
	s.must(s.record(w, c, row(0, 1, dagrun.TaskRunning, at)))
	s.must(s.record(w, c, row(1, 4, dagrun.TaskRunning, at)))
	tasks := s.tasks(id)
	if tasks["a"].State != "succeeded" || tasks["b"].State != "running" || tasks["c"].State != "pending" || tasks["c"].Attempt != 0 {
		s.Errorf("tasks %+v", tasks)
	}
	next := s.worker(replacing(w))
	c = s.claimOne(next)
	s.must(s.record(next, c, row(1, 1, dagrun.TaskSucceeded, at))) // a later drive counts Seq from 1 again
	if got := s.tasks(id)["b"].State; got != "succeeded" {
		s.Errorf("b is %s", got)
	}
}

func staleWritesNothing(s *setup) {
	id := s.start(chain)
	a := s.worker()
	c := s.claimOne(a)
	at := s.now(a)
	s.must(s.record(a, c, row(0, 1, dagrun.TaskRunning, at)))
	b := s.worker(replacing(a))
	again := s.claimOne(b)
	before := s.load(b, again)
	s.wantError(s.record(a, c, row(0, 2, dagrun.TaskSucceeded, at)), queue.ErrLeaseLost)
	s.wantLost(c)
	s.wantError(a.Commit(s.Context(), finish(c, c.Inbox, at, row(0, 3, dagrun.TaskSucceeded, at))), queue.ErrLeaseLost)
	s.wantError(a.AppendLogs(s.Context(), chunks(c, at, 0, "x")), queue.ErrLeaseLost)
	if err := a.Release(s.Context(), c, false, 0); err != nil && !errors.Is(err, queue.ErrLeaseLost) {
		s.Error(err)
	}
	_, err := a.EnqueueChild(s.Context(), queue.Child{Claim: c, Attempt: 1, DAG: "chain"})
	s.wantError(err, queue.ErrLeaseLost)
	s.wantError(s.Settle(s.Context(), a, queue.Settlement{Claim: c, Attempt: 1, Outputs: `{}`}), queue.ErrLeaseLost)
	s.same("what is stored", s.load(b, again), before)
	if r := s.get(id); r.State != "running" || r.Epoch != 2 {
		s.Errorf("run %+v", r)
	}
	s.must(s.record(b, again, row(0, 1, dagrun.TaskSucceeded, at)))
}

func inboxRefuses(s *setup) {
	id := s.start(chain)
	w := s.worker()
	c := s.claimOne(w)
	at := s.now(w)
	if answer := s.ask(queue.Ask{Run: id, Verb: dagrun.VerbCancel}); answer.Outcome != dagrun.Accepted || answer.ID == 0 {
		s.Errorf("answer %+v", answer)
	}
	s.must(s.record(w, c, row(0, 1, dagrun.TaskRunning, at))) // a batch that does not end the drive may still be committed
	done := row(0, 2, dagrun.TaskSucceeded, at)
	s.wantError(w.Commit(s.Context(), finish(c, c.Inbox, at, done)), queue.ErrInboxMoved)
	s.wantError(w.Commit(s.Context(), park(c, c.Inbox, 0, done)), queue.ErrInboxMoved)
	drained := park(c, c.Inbox, 0, done)
	drained.Leave.Drained, drained.Records.Run.State = true, dagrun.RunQueued
	s.wantError(w.Commit(s.Context(), drained), queue.ErrInboxMoved)
	if got := s.tasks(id)["a"].State; got != "running" {
		s.Errorf("a is %s: a refused batch was written in part", got)
	}
	s.wantState(id, "running")
	select {
	case <-c.Lost():
		s.Error("a claim was given up for its inbox")
	default:
	}
	box := s.mail(w, c)
	if len(box.Controls) != 1 || box.Controls[0].Verb != dagrun.VerbCancel || box.Inbox == c.Inbox {
		s.Fatalf("mail %+v", box)
	}
	last := finish(c, box.Inbox, at, done)
	last.Records.Controls = []dagrun.Decision{{ID: box.Controls[0].ID, Outcome: dagrun.Refused, State: "succeeded", Message: "too late"}}
	s.must(w.Commit(s.Context(), last))
	s.wantState(id, "succeeded")
}

func cancelWins(s *setup) {
	s.put(chain)
	const runs = 40
	w := s.worker()
	for i := range runs {
		id := s.enqueue(queue.Request{DAG: "chain"})
		c := s.claimOne(w)
		var (
			wg     sync.WaitGroup
			answer queue.Control
			err    error
		)
		ask := func() { answer, err = s.Client.Control(s.Context(), queue.Ask{Run: id, Verb: dagrun.VerbCancel}) }
		reached := 0
		s.drive(w, c, Behaviour{See: func(*queue.Batch) {
			if reached++; reached == i%6+1 { // each of the six commits in turn; some runs end before it
				wg.Go(ask)
			}
		}})
		wg.Wait()
		if reached < i%6+1 {
			ask()
		}
		s.must(err)
		want := "canceled"
		if answer.Outcome == dagrun.Refused {
			want = answer.State
		}
		if got := s.get(id).State; got != want {
			s.Errorf("run %d: the cancel at commit %d was %s, and the run ended %s", id, i%6+1, answer.Outcome, got)
		}
	}
}

func finishedIsFinal(s *setup) {
	id := s.start(single)
	w := s.worker()
	c := s.claimOne(w)
	at := s.now(w)
	s.must(w.Commit(s.Context(), finish(c, c.Inbox, at, row(0, 1, dagrun.TaskSucceeded, at))))
	s.wantState(id, "succeeded")
	s.wantError(s.record(w, c, row(0, 2, dagrun.TaskFailed, at)), queue.ErrLeaseLost)
	s.wantError(w.Commit(s.Context(), finish(c, c.Inbox, at)), queue.ErrLeaseLost)
	for _, verb := range []dagrun.Verb{dagrun.VerbCancel, dagrun.VerbPause, dagrun.VerbResume} {
		if answer := s.ask(queue.Ask{Run: id, Verb: verb}); answer.Outcome != dagrun.Refused || answer.State != "succeeded" || answer.Message == "" {
			s.Errorf("%s: %+v", verb, answer)
		}
	}
	s.idle(w, "it has ended")
	res, err := s.Client.Result(s.Context(), id)
	s.must(err)
	if res.State != "succeeded" || res.FinishedAt.IsZero() || res.Outputs == nil {
		s.Errorf("result %+v", res)
	}
}

func finishedTaskIsReset(s *setup) {
	for _, wrong := range []struct {
		name string
		by   int64 // past the number of the retry
	}{{"no control asks for it", 1}, {"the control has reset it before", 0}} {
		id := s.start(single)
		w := s.worker()
		c := s.claimOne(w)
		at := s.now(w)
		s.must(s.record(w, c, row(0, 1, dagrun.TaskFailed, at)))
		retry := s.ask(queue.Ask{Run: id, Verb: dagrun.VerbRetry, Mode: dagrun.RetryStep, Step: "a"})
		reset, ended := row(0, 2, dagrun.TaskPending, at), row(0, 3, dagrun.TaskFailed, at)
		reset.ResetBy, ended.ResetBy, reset.ResetFrom = retry.ID, retry.ID, dagrun.TaskFailed
		s.must(s.record(w, c, reset))
		s.must(s.record(w, c, ended))
		reset.Seq, reset.ResetBy = 4, retry.ID+wrong.by
		s.wantError(s.record(w, c, reset), queue.ErrRefused)
		if r := s.get(id); r.State != "failed" {
			s.Errorf("%s: run %+v", wrong.name, r)
		}
	}
}

func refusedAlone(s *setup) {
	s.put(chain)
	w := s.worker()
	at := s.now(w)
	bad := []func(*queue.Batch){
		func(b *queue.Batch) { b.Records.Tasks[0].Reason = "a NUL: \x00" },
		func(b *queue.Batch) { b.Records.Tasks[0].Outputs = `{"x": "\u0000"}` },
		func(b *queue.Batch) { b.Records.Tasks[0].Outputs = `{` },
		func(b *queue.Batch) { b.Records.Tasks[0].ID.Item = strings.Repeat("x", 201) },
		func(b *queue.Batch) { b.Records.Notes = []dagrun.Note{{At: at, Kind: "x", Text: "\xff"}} },
	}
	for range 2 * len(bad) {
		s.enqueue(queue.Request{DAG: "chain"})
	}
	claims := s.claim(w, 2*len(bad))
	var wg sync.WaitGroup
	for i, c := range claims {
		wg.Go(func() {
			b := &queue.Batch{Claim: c, Records: dagrun.Records{Tasks: []dagrun.TaskRecord{row(0, 1, dagrun.TaskRunning, at)}, Run: driven(c)}}
			if i%2 == 0 {
				if err := w.Commit(s.Context(), b); err != nil {
					s.Errorf("a good batch: %v", err)
				}
				return
			}
			bad[i/2](b)
			s.wantError(w.Commit(s.Context(), b), queue.ErrRefused)
		})
	}
	wg.Wait()
	for i, c := range claims {
		r := s.get(c.Run)
		if i%2 == 0 && r.State != "running" || i%2 == 1 && (r.State != "failed" || !strings.HasPrefix(r.Reason, "internal: ")) {
			s.Errorf("batch %d: the run is %s, %s", i, r.State, r.Reason)
		}
	}
	s.wantError(s.record(w, claims[1], row(0, 2, dagrun.TaskRunning, at)), queue.ErrLeaseLost)
}

func lossesCount(s *setup) {
	s.start(chain)
	w := s.worker()
	c := s.claimOne(w)
	for want := 1; want <= 3; want++ {
		s.must(s.record(w, c, row(0, 1, dagrun.TaskRunning, s.now(w))))
		w = s.worker(replacing(w))
		if c = s.claimOne(w); c.Losses != want || c.Epoch != want+1 {
			s.Errorf("losses %d in epoch %d, want %d", c.Losses, c.Epoch, want)
		}
	}
	s.must(s.record(w, c, row(0, 2, dagrun.TaskSucceeded, s.now(w))))
	w = s.worker(replacing(w))
	if c = s.claimOne(w); c.Losses != 1 {
		s.Errorf("losses %d after a task finished, want 1", c.Losses)
	}
	s.must(w.Release(s.Context(), c, false, 0))
	if c = s.claimOne(w); c.Losses != 1 {
		s.Errorf("losses %d after a release, want 1", c.Losses)
	}
}

func releaseGivesBack(s *setup) {
	id := s.start(chain)
	a := s.worker()
	c := s.claimOne(a)
	s.must(s.record(a, c, row(0, 1, dagrun.TaskSucceeded, s.now(a))))
	s.must(a.Release(s.Context(), c, false, 0))
	s.wantState(id, "queued")
	s.wantError(s.record(a, c, row(1, 2, dagrun.TaskRunning, s.now(a))), queue.ErrLeaseLost)
	b := s.worker()
	again := s.claimOne(b)
	if again.Epoch != 2 || again.Losses != 0 || len(s.load(b, again).Saved.Tasks) != 1 {
		s.Errorf("claimed again: %+v", again)
	}
}

func drainedGoesOn(s *setup) {
	id := s.start(diamond)
	a := s.worker()
	started := map[string]int{}
	count := func(b Body) dagrun.Result {
		started[b.Name]++
		return dagrun.Result{Outputs: `{"by":"` + dagrun.JSON(b.Name) + `"}`}
	}
	left := false
	d := s.drive(a, s.claimOne(a), Behaviour{Body: count, Stop: func(dagrun.Ready) bool {
		stop := !left && started["a"] > 0
		left = left || stop
		return stop
	}})
	if d.Leave == nil || !d.Leave.Drained {
		s.Fatalf("driven %+v", d)
	}
	s.wantState(id, "queued")
	b := s.worker()
	c := s.claimOne(b)
	if c.Epoch != 2 || c.Losses != 0 {
		s.Errorf("claimed again: %+v", c)
	}
	if d = s.drive(b, c, Behaviour{Body: count}); d.Verdict == nil || d.Verdict.State != dagrun.RunSucceeded {
		s.Errorf("driven %+v", d)
	}
	s.same("starts", started, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1})
}

func settledOutlives(s *setup) {
	id := s.start(chain)
	a := s.worker()
	c := s.claimOne(a)
	at := s.now(a)
	settle := queue.Settlement{Claim: c, Task: dagrun.TaskID{Step: 0}, Attempt: 1, Outputs: `{"n": 1}`}
	if s.Settle(s.Context(), a, settle) == nil {
		s.Error("settled what does not run")
	}
	s.must(s.record(a, c, row(0, 1, dagrun.TaskRunning, at)))
	settle.Attempt = 2
	if s.Settle(s.Context(), a, settle) == nil {
		s.Error("settled an attempt that is not there")
	}
	settle.Attempt = 1
	s.must(s.Settle(s.Context(), a, settle))
	b := s.worker(replacing(a))
	c = s.claimOne(b)
	loaded := s.load(b, c)
	if len(loaded.Settled) != 1 || loaded.Settled[0].Attempt != 1 || loaded.Settled[0].Task.Step != 0 {
		s.Fatalf("settled %+v", loaded.Settled)
	}
	started := 0
	s.drive(b, c, Behaviour{Body: func(body Body) dagrun.Result {
		if body.Name == "a" {
			started++
		}
		return dagrun.Result{}
	}})
	s.wantState(id, "succeeded")
	res, err := s.Client.Result(s.Context(), id)
	s.must(err)
	s.same("outputs", decoded(s, res.Outputs["a"]), map[string]any{"n": 1.0})
	if started != 0 {
		s.Error("what was settled was started again")
	}
}

func failRunFails(s *setup) {
	id := s.start(chain)
	w := s.worker()
	c := s.claimOne(w)
	at := s.now(w)
	s.must(s.record(w, c, row(0, 1, dagrun.TaskRunning, at)))
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbPause})
	s.must(w.FailRun(s.Context(), c, errors.New("nobody can drive it")))
	r := s.get(id)
	if r.State != "failed" || r.Reason != "internal: nobody can drive it" || r.FinishedAt.IsZero() {
		s.Errorf("run %+v", r)
	}
	if got := s.tasks(id)["a"]; got.State != "canceled" {
		s.Errorf("its task is %s", got.State)
	}
	controls, err := s.History.Controls(s.Context(), id)
	s.must(err)
	if len(controls) != 1 || controls[0].Outcome != dagrun.Refused {
		s.Errorf("controls %+v", controls)
	}
	s.wantError(s.record(w, c, row(0, 2, dagrun.TaskSucceeded, at)), queue.ErrLeaseLost)
	s.wantError(w.FailRun(s.Context(), c, errors.New("again")), queue.ErrLeaseLost)
	s.idle(w, "the run is over")
}

func staleFailsNothing(s *setup) {
	id := s.start(chain)
	w := s.worker()
	c := s.claimOne(w)
	next := s.worker(replacing(w))
	s.wantError(w.FailRun(s.Context(), c, errors.New("stale")), queue.ErrLeaseLost)
	s.wantLost(c)
	s.claimOne(next)
	s.wantState(id, "running")
}
