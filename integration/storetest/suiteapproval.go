package storetest

import (
	"errors"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

var approvalPromises = []promise{
	{"an approval shows what it asks while it waits, and not after its decision", approvalShown},
	{"an approval that waits beside a step that runs is shown", approvalBesideARunningStep},
	{"the approvals that wait are listed, the oldest first", approvalsListed},
	{"an approval that is not waited for any more is not shown, however it ended", approvalsClosed},
	{"an approval is not shown from when its run's driver cancels it", approvalCanceledByItsDriver},
	{"an approval asks on after its driver was lost", approvalSurvivesALoss},
	{"an approval of a retried run asks again", approvalAskedAgain},
	{"the approvals of a run that its worker failed are not shown", approvalOfFailed},
	{"a question is written under the claim or not at all", approvalFenced},
}

const signOff = `name: signed
params: [{name: day, default: mon}]
steps:
  - {id: count, run: "true", outputs: [{name: n, type: number}]}
  - {id: sign, depends: [count], action: approval, with: {prompt: "Publish ${steps.count.outputs.n} of ${params.day}?", inputs: [{name: ticket, required: true}, note]}}
  - {id: out, depends: [sign], run: "true"}
`

// puttingOut makes every body return the output n=3.
var puttingOut = Behaviour{Body: func(Body) dagrun.Result { return dagrun.Result{Outputs: `{"n":3}`} }}

// open returns the approvals that wait, spelled RUN STEP/ITEM: PROMPT.
func (s *setup) open() []string {
	s.Helper()
	approvals, err := s.History.Approvals(s.Context(), true, queue.MaxApprovals)
	s.must(err)
	open := []string{}
	for _, a := range approvals {
		name := a.Step
		if a.Item != "" {
			name += "/" + a.Item
		}
		open = append(open, strings.TrimSuffix(name+": "+a.Prompt, ": "))
	}
	return open
}

func (s *setup) wantOpen(why string, want ...string) {
	s.Helper()
	s.same("approvals that wait "+why, s.open(), append([]string{}, want...))
}

func approvalShown(s *setup) {
	id := s.start(signOff)
	w := s.worker()
	s.drive(w, s.claimOne(w), puttingOut)
	s.wantState(id, "waiting")
	task := s.tasks(id)["sign"]
	q := task.Approval
	if q == nil {
		s.Fatalf("it asks nothing: %+v", task)
	}
	s.same("prompt", q.Prompt, "Publish 3 of mon?")
	s.same("inputs", q.Inputs, []dagspec.Param{{Name: "ticket", Type: "string", Required: true}, {Name: "note", Type: "string"}})
	if len(q.Approvers) > 0 || !q.MayDecide || !q.Since.Equal(task.StartedAt) || !q.Deadline.IsZero() {
		s.Errorf("it asks %+v, and started at %s", q, task.StartedAt)
	}
	s.same("reason", task.Reason, "waits for approval")
	s.wantOpen("at first", "sign: Publish 3 of mon?")
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbApprove, Step: "sign", Outputs: map[string]string{"ticket": "7"}})
	s.drive(w, s.claimOne(w), puttingOut)
	s.wantState(id, "succeeded")
	s.wantOpen("after the decision")
	if q := s.tasks(id)["sign"].Approval; q != nil {
		s.Errorf("it asks on: %+v", q)
	}
}

func approvalBesideARunningStep(s *setup) {
	s.start("name: both\nsteps: [{id: a, run: \"true\"}, {id: sign, action: approval, with: {prompt: Go on?, approvers: [lead, boss]}}]\n")
	w := s.worker()
	ran := false
	s.drive(w, s.claimOne(w), Behaviour{Body: func(Body) dagrun.Result {
		ran = true
		s.wantOpen("while a runs", "sign: Go on?")
		return dagrun.Result{}
	}})
	approvals, err := s.History.Approvals(s.Context(), true, queue.MaxApprovals)
	s.must(err)
	if !ran || len(approvals) != 1 || len(approvals[0].Inputs) > 0 {
		s.Fatalf("approvals %+v", approvals)
	}
	s.same("approvers", approvals[0].Approvers, []string{"lead", "boss"})
}

func approvalsListed(s *setup) {
	s.put("name: many\nparams: [{name: n, default: \"0\"}]\nsteps: [{id: all, foreach: {items: [x, y], key: item, as: item}, action: approval, with: {prompt: \"${item} of ${params.n}?\", timeout: 1h}}]\n")
	w := s.worker()
	for _, n := range []string{"1", "2"} {
		s.enqueue(queue.Request{DAG: "many", Params: map[string]string{"n": n}})
		s.drive(w, s.claimOne(w), Behaviour{})
		s.Tick()
	}
	s.wantOpen("in two runs", "all/x: x of 1?", "all/y: y of 1?", "all/x: x of 2?", "all/y: y of 2?")
	two, err := s.History.Approvals(s.Context(), false, 2)
	s.must(err)
	if len(two) != 2 || two[0].Run != 1 || two[1].Run != 1 || two[0].DAG != "many" || two[0].SubmittedBy == "" || two[0].Deadline.Sub(two[0].Since).Hours() != 1 {
		s.Errorf("the first two are %+v", two)
	}
}

func approvalsClosed(s *setup) {
	id := s.start(`name: ends
steps:
  - {id: a, action: approval, with: {prompt: A?}}
  - {id: b, action: approval, with: {prompt: B?}}
  - {id: c, action: approval, with: {prompt: C?}}
  - {id: d, action: approval, with: {prompt: D?}}
  - {id: e, action: approval, with: {prompt: E?, timeout: 50ms}, continue_on: failed}
`)
	w := s.worker()
	s.drive(w, s.claimOne(w), Behaviour{})
	s.wantOpen("at first", "a: A?", "b: B?", "c: C?", "d: D?", "e: E?")
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbReject, Step: "a"})
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbCancel, Step: "b"})
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbMark, Step: "c", As: dagrun.TaskSkipped})
	deadline := s.tasks(id)["e"].Approval.Deadline
	s.until("e has timed out", func() bool { return !moment(s.now(w)).Before(deadline) })
	s.drive(w, s.claimOne(w), Behaviour{})
	s.wantOpen("after four ends", "d: D?")
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbCancel}) // no worker holds the run, so the cancel ends it at once
	s.wantState(id, "canceled")
	s.wantOpen("when the run is over")
}

func approvalCanceledByItsDriver(s *setup) {
	id := s.start("name: held\nsteps: [{id: sign, action: approval, with: {prompt: Well?}}]\nhandler_on: {exit: {run: \"true\"}}\n")
	w := s.worker()
	s.drive(w, s.claimOne(w), Behaviour{})
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbCancel})
	s.wantOpen("until the run's driver has read of the cancel", "sign: Well?")
	s.drive(w, s.claimOne(w), Behaviour{Body: func(Body) dagrun.Result {
		s.wantOpen("while the handler runs")
		return dagrun.Result{}
	}})
	s.wantState(id, "canceled")
}

func approvalSurvivesALoss(s *setup) {
	id := s.start("name: lost\nsteps: [{id: sign, action: approval, with: {prompt: Well?}}, {id: a, run: \"true\"}]\n")
	first := s.worker()
	c := s.claimOne(first)
	s.drive(first, c, Behaviour{Body: func(Body) dagrun.Result { return dagrun.Result{SnoozeUntil: s.now(first) + 1} }})
	s.wantOpen("while it is parked", "sign: Well?")
	s.must(first.Close(s.Context()))
	second := s.worker(replacing(first))
	s.drive(second, s.claimInTurns(second), Behaviour{})
	s.wantOpen("in the second drive", "sign: Well?")
	s.ask(approve(id, "sign"))
	s.drive(second, s.claimOne(second), Behaviour{})
	s.wantState(id, "succeeded")
	s.wantOpen("at the end")
}

func approvalAskedAgain(s *setup) {
	id := s.start("name: again\nsteps: [{id: sign, action: approval, with: {prompt: Now?}}]\n")
	w := s.worker()
	s.drive(w, s.claimOne(w), Behaviour{})
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbReject, Step: "sign"})
	s.drive(w, s.claimOne(w), Behaviour{})
	s.wantState(id, "failed")
	s.wantOpen("after the rejection")
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbRetry})
	s.wantOpen("before the next drive")
	s.drive(w, s.claimOne(w), Behaviour{})
	s.wantOpen("in the second generation", "sign: Now?")
}

func approvalOfFailed(s *setup) {
	id := s.start("name: odd\nsteps: [{id: sign, action: approval, with: {prompt: Well?}}, {id: a, run: \"true\"}]\n")
	w := s.worker()
	c := s.claimOne(w)
	s.drive(w, c, Behaviour{Body: func(Body) dagrun.Result { return dagrun.Result{SnoozeUntil: s.now(w) + 1} }})
	s.wantOpen("at first", "sign: Well?")
	s.must(w.FailRun(s.Context(), s.claimInTurns(w), errors.New("cannot be driven")))
	s.wantState(id, "failed")
	s.wantOpen("after the end")
}

func approvalFenced(s *setup) {
	s.start("name: late\nsteps: [{id: sign, action: approval}]\n")
	w := s.worker()
	c := s.claimOne(w)
	rec := row(0, 1, dagrun.TaskWaiting, s.now(w))
	rec.Asks = &dagrun.Asks{Open: true, Prompt: "too late?"}
	s.must(w.Release(s.Context(), c, false, 0))
	s.wantError(s.record(w, c, rec), queue.ErrLeaseLost)
	s.wantOpen("though its claim is gone")
}
