package storetest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

var controlPromises = []promise{
	{"a cancel of what never started is applied at once", cancelQueued},
	{"a cancel waits for no pause to end", cancelPaused},
	{"a retry opens a generation of a finished run", retryOpens},
	{"a retry and a mark reset steps of a run under way", resetsLive},
	{"a retry that resets nothing changes nothing", retryResetsNothing},
	{"a retry starts what never started", retryStarts},
	{"a retry starts items that never started", retryStartsItems},
	{"a control is decided once", decidedOnce},
	{"controls of unknown runs and steps are refused", unknownControls},
	{"an owner hears of a control", ownerHears},
}

var parkPromises = []promise{
	{"a parked run wakes by its timer", wakesByTimer},
	{"a parked run wakes by a control", wakesByControl},
	{"a paused run stays paused until it is resumed", pausedStays},
}

func cancelQueued(s *setup) {
	id := s.start(chain)
	if answer := s.ask(queue.Ask{Run: id, Verb: dagrun.VerbCancel}); answer.Outcome != dagrun.Applied || answer.State != "canceled" || answer.DecidedAt.IsZero() {
		s.Errorf("answer %+v", answer)
	}
	s.wantState(id, "canceled")
	s.idle(s.worker(), "it was canceled")
	for name, t := range s.tasks(id) {
		if t.State != "canceled" || t.Attempt != 0 {
			s.Errorf("task %s: %+v", name, t)
		}
	}
	if answer := s.ask(queue.Ask{Run: id, Verb: dagrun.VerbCancel}); answer.Outcome != dagrun.Refused || answer.State != "canceled" {
		s.Errorf("second answer %+v", answer)
	}
}

func cancelPaused(s *setup) {
	s.put(single)
	for name, pause := range map[string]func(paused bool){
		"queue": func(paused bool) {
			s.must(s.Admin.SetQueue(s.Context(), queue.QueueChange{Name: "default", Paused: &paused}))
		},
		"dag": func(paused bool) {
			s.must(s.Admin.SetDAG(s.Context(), queue.DAGChange{Name: "single", Paused: &paused}))
		},
	} {
		w := s.worker()
		retried := s.enqueue(queue.Request{DAG: "single"})
		s.drive(w, s.claimOne(w), Behaviour{Body: func(Body) dagrun.Result { return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 1, HasExit: true} }})
		released := s.enqueue(queue.Request{DAG: "single"})
		s.must(w.Release(s.Context(), s.claimOne(w), false, 0))
		pause(true)
		retry := s.ask(queue.Ask{Run: retried, Verb: dagrun.VerbRetry})
		if answer := s.ask(queue.Ask{Run: retried, Verb: dagrun.VerbCancel}); answer.Outcome != dagrun.Applied || answer.State != "canceled" {
			s.Errorf("%s: of what was retried: %+v", name, answer)
		}
		s.wantState(retried, "canceled")
		all, err := s.History.Controls(s.Context(), retried)
		s.must(err)
		for _, c := range all {
			if c.DecidedAt.IsZero() || c.ID == retry.ID && (c.Outcome != dagrun.Refused || c.State != "canceled" || c.Message == "") {
				s.Errorf("%s: left behind: %+v", name, c)
			}
		}
		s.cancels(released)
		s.ask(queue.Ask{Run: retried, Verb: dagrun.VerbRetry})
		s.idle(w, "it is paused")
		pause(false)
		c := s.claimOne(w)
		if c.Run != retried || c.Row.Generation != 3 {
			s.Errorf("%s: claimed %+v", name, c)
		}
		s.drive(w, c, Behaviour{})
		s.wantState(retried, "succeeded")
	}
}

func retryOpens(s *setup) {
	id := s.start(chain)
	w := s.worker()
	started := map[string]int{}
	fails := func(b Body) dagrun.Result {
		started[b.Name]++
		if b.Name == "b" && started["b"] == 1 {
			return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 1, HasExit: true}
		}
		return dagrun.Result{}
	}
	retry := queue.Ask{Run: id, Verb: dagrun.VerbRetry}
	c := s.claimOne(w)
	if answer := s.ask(retry); answer.Outcome != dagrun.Refused || answer.State != "running" || answer.Message == "" {
		s.Errorf("a retry of what runs: %+v", answer)
	}
	s.drive(w, c, Behaviour{Body: fails})
	s.wantState(id, "failed")
	if answer := s.ask(retry); answer.Outcome != "" || answer.State != "queued" {
		s.Errorf("answer %+v", answer)
	}
	if r := s.get(id); r.State != "queued" || r.Generation != 2 || r.Over() || !r.StartedAt.IsZero() {
		s.Errorf("run %+v", r)
	}
	if answer := s.ask(retry); answer.Outcome != dagrun.Refused {
		s.Errorf("a second retry: %+v", answer)
	}
	c = s.claimOne(w)
	if c.Row.Generation != 2 || c.Epoch != 2 || c.Losses != 0 {
		s.Errorf("claimed again: %+v", c)
	}
	s.drive(w, c, Behaviour{Body: fails})
	r := s.get(id)
	if r.State != "succeeded" || r.Generation != 2 {
		s.Errorf("run %+v", r)
	}
	s.same("starts", started, map[string]int{"a": 1, "b": 2, "c": 1})
	if got := s.tasks(id)["b"]; got.Attempt != 2 || got.State != "succeeded" {
		s.Errorf("b: %+v", got)
	}
}

// While slow waits for its turn, a is repeated and each/x is marked: b and c go on in the same generation. The items of each, made
// anew by a second retry, have the numbers of their attempts.
func resetsLive(s *setup) {
	s.put("name: live\nsteps:\n  - {id: each, run: x, foreach: {items: [x, y], key: item}}\n  - {id: c, run: x, depends: [each]}\n" +
		"  - {id: a, run: x}\n  - {id: b, run: x, depends: [a]}\n  - {id: slow, run: x, depends: [a, b], trigger_rule: all_done}\n")
	id := s.enqueue(queue.Request{DAG: "live"})
	w := s.worker()
	started := map[string]int{}
	asks := []queue.Ask{
		{Verb: dagrun.VerbRetry, Mode: dagrun.RetryStep, Step: "a"},
		{Verb: dagrun.VerbMark, As: dagrun.TaskSucceeded, Step: "each", Item: "x"},
		{Verb: dagrun.VerbRetry, Mode: dagrun.RetryFrom, Step: "each"},
		{Verb: dagrun.VerbRetry, Mode: dagrun.RetryStep, Step: "a"},
	}
	s.drive(w, s.claimOne(w), Behaviour{
		Body: func(b Body) dagrun.Result {
			started[b.Name]++
			if (b.Name == "a" || b.Name == "each/x") && started[b.Name] == 1 {
				return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 1, HasExit: true}
			}
			return dagrun.Result{}
		},
		Mail: func(b Body) bool {
			if b.Name != "slow" {
				return false
			}
			for _, a := range asks {
				a.Run = id
				if answer := s.ask(a); answer.Outcome != "" || answer.State != "running" {
					s.Errorf("answer %+v", answer)
				}
			}
			return true
		},
	})
	all, err := s.History.Controls(s.Context(), id)
	s.must(err)
	outcomes := []dagrun.Outcome{}
	for _, c := range all {
		outcomes = append(outcomes, c.Outcome)
	}
	s.same("outcomes", outcomes, []dagrun.Outcome{dagrun.Applied, dagrun.Applied, dagrun.Applied, dagrun.Refused})
	if r := s.get(id); r.State != "succeeded" || r.Generation != 1 {
		s.Errorf("run %+v", r)
	}
	s.same("starts", started, map[string]int{"a": 2, "b": 1, "c": 1, "each/x": 2, "each/y": 2, "slow": 1})
}

func retryResetsNothing(s *setup) {
	s.put("name: fine\nhandler_on: {exit: {run: \"true\"}}\nsteps:\n  - {id: a, run: x, foreach: {items: [x, y]}}\n  - {id: b, run: x, continue_on: failed}\n")
	id := s.enqueue(queue.Request{DAG: "fine"})
	w := s.worker()
	s.drive(w, s.claimOne(w), Behaviour{Body: func(b Body) dagrun.Result {
		if b.Name == "b" {
			return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 1, HasExit: true}
		}
		return dagrun.Result{}
	}})
	before := s.get(id)
	s.wantState(id, "succeeded")
	for _, refused := range []struct {
		ask queue.Ask
		why string
	}{
		{queue.Ask{}, "there is nothing to repeat: no task failed or was canceled"},
		{queue.Ask{Mode: dagrun.RetryFrom, Step: "@exit"}, "a handler cannot be repeated alone: retry the run"},
		{queue.Ask{Mode: dagrun.RetryStep, Step: "a", Item: "z"}, "step a has no item z"},
		{queue.Ask{Mode: dagrun.RetryStep, Step: "b", Item: "x"}, "step b has no item x"},
	} {
		refused.ask.Run, refused.ask.Verb = id, dagrun.VerbRetry
		if answer := s.ask(refused.ask); answer.Outcome != dagrun.Refused || answer.State != "succeeded" || answer.Message != refused.why || answer.DecidedAt.IsZero() {
			s.Errorf("answer %+v", answer)
		}
		s.same("run", s.get(id), before)
	}
	for n, ask := range []queue.Ask{{Mode: dagrun.RetryStep, Step: "a", Item: "x"}, {Mode: dagrun.RetryFrom, Step: "b"}, {Mode: dagrun.RetryAll}} {
		ask.Run, ask.Verb = id, dagrun.VerbRetry
		if answer := s.ask(ask); answer.Outcome != "" || answer.State != "queued" {
			s.Errorf("answer %+v", answer)
		}
		s.drive(w, s.claimOne(w), Behaviour{})
		if r := s.get(id); r.State != "succeeded" || r.Generation != n+2 {
			s.Errorf("run %+v", r)
		}
	}
	all, err := s.History.Controls(s.Context(), id)
	s.must(err)
	for _, c := range all[len(all)-3:] {
		s.same("outcome", c.Outcome, dagrun.Applied)
	}
}

// A run that was canceled before it started has no task that failed, and all of them to do.
func retryStarts(s *setup) {
	id := s.start(chain)
	w := s.worker()
	s.cancels(id)
	retry := s.ask(queue.Ask{Run: id, Verb: dagrun.VerbRetry})
	s.same("outcome", retry.Outcome, dagrun.Outcome(""))
	s.drive(w, s.claimOne(w), Behaviour{})
	s.wantState(id, "succeeded")
	all, err := s.History.Controls(s.Context(), id)
	s.must(err)
	s.same("outcome", all[len(all)-1].Outcome, dagrun.Applied)
}

// An item has no row while it waits for another to end. Records that the store refuses end the run without its driver.
func retryStartsItems(s *setup) {
	id := s.start("name: each\nsteps: [{id: a, run: \"true\", foreach: {items: [x, y], key: item, max_concurrent: 1}}]\n")
	w := s.worker()
	c := s.claimOne(w)
	at := s.now(w)
	each, x := row(0, 1, dagrun.TaskRunning, at), row(0, 2, dagrun.TaskSucceeded, at)
	each.Growth = &dagrun.Growth{Generation: 1, Items: []dagrun.Item{{Key: "x", Value: `"x"`}, {Key: "y", Value: `"y"`}}}
	x.ID.Item = "x"
	s.must(s.record(w, c, each, x))
	each.Seq, each.Reason = 3, "a NUL: \x00"
	s.wantError(s.record(w, c, each), queue.ErrRefused)
	s.wantState(id, "failed")
	retry := s.ask(queue.Ask{Run: id, Verb: dagrun.VerbRetry})
	s.same("outcome", retry.Outcome, dagrun.Outcome(""))
	s.drive(w, s.claimOne(w), Behaviour{})
	s.wantState(id, "succeeded")
	s.same("item y", s.tasks(id)["a/y"].State, "succeeded")
}

func decidedOnce(s *setup) {
	id := s.start(chain)
	w := s.worker()
	c := s.claimOne(w)
	control := s.ask(queue.Ask{Run: id, Verb: dagrun.VerbPause})
	if control.Outcome != "" {
		s.Errorf("a pause is the driver's to decide: %+v", control)
	}
	decide := func(d dagrun.Decision) {
		s.must(w.Commit(s.Context(), &queue.Batch{Claim: c, Records: dagrun.Records{Controls: []dagrun.Decision{d}}}))
	}
	decide(dagrun.Decision{ID: control.ID, Outcome: dagrun.Applied, State: "paused"})
	decide(dagrun.Decision{ID: control.ID, Outcome: dagrun.Refused, State: "failed", Message: "no"})
	if box := s.mail(w, c); len(box.Controls) > 0 {
		s.Errorf("mail %+v", box)
	}
	if all, err := s.History.Controls(s.Context(), id); err != nil || len(all) != 1 || all[0].Outcome != dagrun.Applied {
		s.Errorf("decided twice: %+v, %v", all, err)
	}
	next := s.ask(queue.Ask{Run: id, Verb: dagrun.VerbResume})
	box := s.mail(w, c)
	if len(box.Controls) != 1 || box.Controls[0].ID != next.ID || next.ID <= control.ID {
		s.Errorf("mail %+v", box)
	}
}

func unknownControls(s *setup) {
	id := s.start(chain)
	for _, ask := range []queue.Ask{
		{Run: 4711, Verb: dagrun.VerbCancel}, {Run: id, Verb: dagrun.VerbCancel, Step: "none"}, {Run: id, Verb: dagrun.VerbPause, Step: "@exit"},
	} {
		_, err := s.Client.Control(s.Context(), ask)
		s.wantError(err, queue.ErrNotFound)
		s.wantCode(err, "OA007")
	}
	for _, ask := range []queue.Ask{
		{Run: id, Verb: dagrun.VerbApprove},
		{Run: id, Verb: dagrun.VerbMark, Step: "a", As: dagrun.TaskRunning},
		{Run: id, Verb: dagrun.VerbRetry, Mode: dagrun.RetryFrom},
	} {
		_, err := s.Client.Control(s.Context(), ask)
		s.wantCode(err, "OA013")
	}
	deep := json.RawMessage(`{"x": ` + strings.Repeat("[", dagspec.MaxValueDepth) + strings.Repeat("]", dagspec.MaxValueDepth) + `}`)
	_, err := s.Client.Control(s.Context(), queue.Ask{Run: id, Verb: dagrun.VerbMark, Step: "a", As: dagrun.TaskSucceeded, Outputs: deep})
	s.wantCode(err, "OA012")
	if _, err := s.Client.Control(s.Context(), queue.Ask{Run: id, Verb: dagrun.VerbChildEnded, Step: "a"}); err == nil {
		s.Error("somebody says that a child ended")
	}
	s.wantState(id, "queued")
}

func ownerHears(s *setup) {
	id := s.start(chain)
	w := s.worker()
	s.claimOne(w)
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbPause})
	for {
		heard, err := w.Hear(ctx)
		s.must(err)
		if heard.All || slices.Contains(heard.Runs, id) {
			return
		}
	}
}

func wakesByTimer(s *setup) {
	id := s.start(chain)
	w := s.worker()
	c := s.claimOne(w)
	at := s.now(w)
	wake := at + dagrun.Time(2*s.TTL.Milliseconds())
	s.must(w.Commit(s.Context(), park(c, c.Inbox, wake, row(0, 1, dagrun.TaskWaiting, at))))
	if state := s.get(id).State; state != "waiting" && s.now(w) < wake {
		s.Errorf("run %d is %s", id, state)
	}
	c = s.claimInTurns(w)
	if now := s.now(w); now < wake {
		s.Errorf("woken at %d, before %d", now, wake)
	}
	if c.Epoch != 2 || c.Losses != 0 || c.Row.WakeAt != 0 {
		s.Errorf("claimed again: %+v", c)
	}
	s.wantState(id, "running")
}

func wakesByControl(s *setup) {
	id := s.start("name: asked\nsteps: [{id: a, action: approval}, {id: b, run: \"true\", depends: [a]}]\n")
	w := s.worker()
	s.drive(w, s.claimOne(w), Behaviour{})
	s.wantState(id, "waiting")
	s.idle(w, "nobody has approved")
	if answer := s.ask(approve(id, "a")); answer.State != "queued" || answer.Outcome != "" {
		s.Errorf("answer %+v", answer)
	}
	s.wantState(id, "queued")
	if d := s.drive(w, s.claimOne(w), Behaviour{}); d.Verdict == nil {
		s.Errorf("driven %+v", d)
	}
	s.wantState(id, "succeeded")
}

func pausedStays(s *setup) {
	id := s.start(chain)
	w := s.worker()
	c := s.claimOne(w)
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbPause})
	d := s.drive(w, c, Behaviour{Mail: func(Body) bool { return true }})
	if d.Leave == nil {
		s.Fatalf("driven %+v", d)
	}
	s.wantState(id, "paused")
	s.idle(w, "it is paused")
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbResume})
	s.drive(w, s.claimOne(w), Behaviour{})
	s.wantState(id, "succeeded")
}
