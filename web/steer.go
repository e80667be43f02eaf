package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// steerVerbs are what a run or a task may be asked for, each by a page of its own that says what would happen.
var steerVerbs = []dagrun.Verb{
	dagrun.VerbCancel, dagrun.VerbPause, dagrun.VerbResume, dagrun.VerbRetry, dagrun.VerbApprove, dagrun.VerbReject, dagrun.VerbMark,
}

var steerTitles = map[dagrun.Verb]string{
	dagrun.VerbCancel: "Cancel", dagrun.VerbPause: "Pause", dagrun.VerbResume: "Resume", dagrun.VerbRetry: "Retry",
	dagrun.VerbApprove: "Approve", dagrun.VerbReject: "Reject", dagrun.VerbMark: "Mark",
}

// markable are the states that a person may give a step.
var markable = []dagrun.State{dagrun.TaskSucceeded, dagrun.TaskSkipped, dagrun.TaskFailed}

const (
	maxNamed    = 12       // steps that a sentence names
	inputPrefix = "input." // of the fields that answer an approval's inputs
	commentName = "comment"
	seenField   = "seen" // the number of the cancel that a form showed
)

// steerData is what the page shows that asks a run, or a task of it, for something.
type steerData struct {
	Run     *queue.RunHead
	Ask     queue.Ask
	Title   string
	Target  string // what is asked: run 41, or load of run 41
	Effects []string
	Command string
	Back    string // path of the run's page
	dagLink string
	May     bool
	Problem *refusal   // with what was sent
	sent    url.Values // that is shown again

	Modes    []retryChoice
	Steps    []retryChoice // to choose from, where a mode needs one
	Marks    []dagrun.State
	Question *queue.Question
	Handlers bool           // a cancel has handlers to skip
	Canceled *queue.Control // a cancel of the run that was asked for before
}

// retryChoice is a way to another choice of what runs again.
type retryChoice struct {
	Title, Path string
	On          bool
}

// steerPage shows what a request would do, with the form that sends it.
func (s *server) steerPage(verb dagrun.Verb) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		ask, problem, err := readAsk(r, verb, r.URL.Query())
		if err != nil {
			return err
		}
		if ask.Step == "" && needsStep(verb) {
			s.redirect(w, r, runPath(ask.Run))
			return nil
		}
		data, err := s.readSteer(r.Context(), ask)
		if errors.Is(err, errNoQuestion) { // the run's page says what became of it
			s.redirect(w, r, taskPage(ask).address())
			return nil
		}
		if err != nil {
			return err
		}
		data.Problem = unsaid(problem)
		return s.render(w, r, "steer.html", steerFrame(data))
	}
}

func steerFrame(data *steerData) page {
	p := page{
		Title: fmt.Sprintf("%s %s", data.Title, data.Target), Nav: "runs", Data: data,
		Crumbs: []crumb{{"Runs", "/runs"}, {data.Run.DAG, data.dagLink}, {fmt.Sprint(data.Run.ID), data.Back}, {data.Title, ""}},
	}
	if data.Back == approvalsOfMine { // the login sees neither the run nor its DAG whole
		p.Nav, p.Crumbs = "approvals", []crumb{{"Approvals", data.Back}, {fmt.Sprint(data.Run.ID), runPath(data.Run.ID)}, {data.Title, ""}}
	}
	return p
}

// steer sends a request, and leads to the run's page, which shows what became of it.
func (s *server) steer(verb dagrun.Verb) action {
	return func(r *http.Request) (answer, error) {
		ask, problem, err := readAsk(r, verb, r.PostForm)
		if err != nil {
			return answer{}, err
		}
		if problem == "" && verb == dagrun.VerbCancel && ask.Step == "" {
			problem, err = s.surprise(r.Context(), &ask, r.PostForm.Get(seenField))
		}
		if err != nil {
			return answer{}, err
		}
		if problem != "" {
			return s.steerAgain(r, ask, unsaid(problem))
		}
		c, err := s.store.Control(r.Context(), ask)
		if wrong := guarded(err); wrong != nil && needsStep(verb) {
			return s.steerAgain(r, ask, wrong)
		}
		if err != nil {
			return answer{}, err
		}
		q := taskPage(ask)
		q.Asked = c.ID
		if verb == dagrun.VerbRetry {
			q.Task = taskQuery{}
		}
		return answer{To: q.address()}, nil
	}
}

// guarded is what is wrong with a request, so that it can be made another way; or who guards the step, so that they can be asked.
func guarded(err error) *refusal {
	if said, ok := errors.AsType[*queue.Error](err); ok && said.Code == approversDecide {
		return &refusal{status: http.StatusUnprocessableEntity, message: runview.InlineText(said.Message), hint: runview.InlineText(said.Hint)}
	}
	return correctable(err)
}

// steerAgain shows a form again with what was sent, and with what is wrong with that.
func (s *server) steerAgain(r *http.Request, ask queue.Ask, wrong *refusal) (answer, error) {
	data, err := s.readSteer(r.Context(), ask)
	if err != nil {
		return answer{}, err
	}
	data.Problem, data.sent = wrong, r.PostForm
	return answer{File: "steer.html", Page: steerFrame(data), Status: http.StatusUnprocessableEntity}, nil
}

// unsaid is what a form says that lacks something, nil of a form that lacks nothing.
func unsaid(problem string) *refusal {
	if problem == "" {
		return nil
	}
	return &refusal{status: http.StatusUnprocessableEntity, message: problem}
}

// surprise says why a cancel of a run is not sent: another cancel than the form showed was asked for, or none. It looks right before
// the cancel is sent, but the database has no cancel that is refused where there is one already. So of two people who ask within
// these milliseconds the second still skips the handlers.
func (s *server) surprise(ctx context.Context, ask *queue.Ask, seen string) (string, error) {
	if ask.Now && seen == "" { // skipping was chosen, whatever was asked for before
		return "", nil
	}
	run, err := s.store.Get(ctx, ask.Run)
	if err != nil || run.Over() {
		return "", err
	}
	before, err := s.findCancel(ctx, run)
	switch {
	case err != nil:
		return "", err
	case before != nil && !ask.Now:
		return "A cancel was asked for already. A second one skips the handlers: choose that if you mean it.", nil
	case seen != "" && (before == nil || strconv.FormatInt(before.ID, 10) != seen):
		ask.Now = false
		return "The run was retried since this page was made, and the cancel that it showed is over.", nil
	}
	return "", nil
}

// findCancel finds a cancel of the run's generation that it did not refuse; nil if there is none.
func (s *server) findCancel(ctx context.Context, run *queue.Run) (*queue.Control, error) {
	all, err := s.store.Controls(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	for _, c := range slices.Backward(all) {
		switch {
		case c.Outcome == dagrun.Refused:
		case c.Verb == dagrun.VerbRetry:
			return nil, nil // a cancel before it was of an earlier generation
		case c.Verb == dagrun.VerbCancel && c.Step == "":
			return &c, nil
		}
	}
	return nil, nil
}

// readAsk reads a request from a form or an address. A problem is what somebody has to mend in the form.
func readAsk(r *http.Request, verb dagrun.Verb, form url.Values) (ask queue.Ask, problem string, err error) {
	if ask.Run, err = parseRunID(r); err != nil {
		return ask, "", err
	}
	ask.Verb, ask.Step, ask.Item = verb, form.Get("step"), form.Get("item")
	switch verb {
	case dagrun.VerbCancel:
		ask.Now = form.Get("now") != ""
	case dagrun.VerbRetry:
		if ask.Mode, err = dagrun.ParseRetryMode(cmp.Or(form.Get("mode"), dagrun.RetryFailed.String())); err != nil {
			return ask, "", badQuery("mode", form.Get("mode"))
		}
		if one := ask.Mode == dagrun.RetryFrom || ask.Mode == dagrun.RetryStep; one && ask.Step == "" {
			problem = "Choose the step to begin with."
		} else if !one {
			ask.Step, ask.Item = "", ""
		}
	case dagrun.VerbApprove:
		ask.Outputs = inputsOf(form)
	case dagrun.VerbReject:
		ask.Reason = form.Get(commentName)
	case dagrun.VerbMark:
		problem, err = readMark(&ask, form)
	default:
	}
	return ask, problem, err
}

// needsStep reports whether a verb is about a step, never about a run.
func needsStep(verb dagrun.Verb) bool {
	return verb == dagrun.VerbApprove || verb == dagrun.VerbReject || verb == dagrun.VerbMark
}

// inputsOf are the inputs that were answered, and the comment; nil for none.
func inputsOf(form url.Values) any {
	inputs := map[string]string{}
	for name := range form {
		if input, ok := strings.CutPrefix(name, inputPrefix); ok && form.Get(name) != "" {
			inputs[input] = form.Get(name)
		}
	}
	if comment := form.Get(commentName); comment != "" {
		inputs[commentName] = comment
	}
	if len(inputs) == 0 {
		return nil
	}
	return inputs
}

func readMark(ask *queue.Ask, form url.Values) (problem string, err error) {
	if ask.As, err = dagrun.ParseState(cmp.Or(form.Get("as"), dagrun.TaskSucceeded.String())); err != nil || !slices.Contains(markable, ask.As) {
		return "", badQuery("as", form.Get("as"))
	}
	outputs, err := readObject(form.Get("outputs"))
	if err != nil {
		return fmt.Sprintf(`The outputs: %v. Write {"rows": 7}.`, err), nil
	}
	if outputs != nil {
		ask.Outputs = outputs
	}
	return "", nil
}

// readSteer reads what a request would do.
func (s *server) readSteer(ctx context.Context, ask queue.Ask) (*steerData, error) {
	p, err := s.readSteps(ctx, taskPage(ask))
	if decides(ask.Verb) && errors.Is(err, errSeenInPart) {
		return s.readForeign(ctx, ask)
	}
	if err != nil {
		return nil, err
	}
	d := &steerData{
		Run: p.Run, Ask: ask, Title: steerTitles[ask.Verb], Target: fmt.Sprintf("run %d", ask.Run), Back: p.Query.address(), dagLink: p.dagLink(),
		Command: runview.AskCommand(&ask), May: p.Steers(),
	}
	if ask.Step != "" {
		if p.summary(ask.Step) == nil {
			return nil, &refusal{status: http.StatusNotFound, message: "The run has no step " + runview.InlineText(ask.Step) + ".", hint: "Look at its tasks."}
		}
		d.Target = runview.TaskName(ask.Step, ask.Item) + " of " + d.Target
	}
	switch ask.Verb {
	case dagrun.VerbCancel:
		err = s.fillCancel(ctx, p, d)
	case dagrun.VerbRetry:
		d.fillRetry(p)
	case dagrun.VerbApprove, dagrun.VerbReject:
		err = s.fillDecision(ctx, p, d)
	case dagrun.VerbMark:
		d.Marks = markable
		d.Effects = []string{"The run goes on as if the step had ended so. One that runs is killed first."}
		if t := p.summary(ask.Step); ask.Item == "" && !t.FinishedAt.IsZero() {
			d.Effects, d.May = []string{"The step has ended, so it refuses."}, false
		} else if q := t.Approval; q != nil && !q.MayDecide && !p.Rights.Admin {
			d.Effects, d.May = []string{"It waits for approval, which " + runview.Deciders(q.Approvers, p.Run.SubmittedBy) + " give."}, false
		} else if q != nil {
			d.Effects = append(d.Effects, runview.QuestionLines(q)...)
		}
	case dagrun.VerbPause:
		d.Effects = []string{"Nothing new starts, and what runs finishes."}
		if ask.Step != "" {
			d.Effects = []string{"It is stopped where it runs, and goes on as its next attempt."}
		}
	default:
		d.Effects = []string{"What was paused goes on where it was. Timers kept their deadlines."}
	}
	return d, err
}

func (s *server) fillCancel(ctx context.Context, p *runPage, d *steerData) (err error) {
	if d.Ask.Step != "" {
		d.Effects = []string{"It is canceled, and all that depends on it and has not started."}
		return nil
	}
	var running, waiting, pending []string
	for i := range p.steps {
		switch t := &p.steps[i]; {
		case t.StartedAt.IsZero() && !strings.HasPrefix(t.Step, "@"):
			pending = append(pending, t.Step)
		case !t.FinishedAt.IsZero():
		case t.State == "running" || t.State == "finishing":
			running = append(running, t.Step)
		default:
			waiting = append(waiting, t.Step)
		}
	}
	if len(running) > 0 {
		d.Effects = append(d.Effects, "What runs is stopped by its kill signal, and has its grace: "+named(running))
	}
	if len(waiting) > 0 {
		d.Effects = append(d.Effects, "These wait, and are given up: "+named(waiting))
	}
	if len(pending) > 0 {
		d.Effects = append(d.Effects, "These never start: "+named(pending))
	}
	var handlers []string
	if spec := p.spec(); spec != nil && !p.Run.StartedAt.IsZero() {
		if spec.HandlerOn.Abort != nil {
			handlers = append(handlers, "@abort")
		}
		if spec.HandlerOn.Exit != nil {
			handlers = append(handlers, "@exit")
		}
	}
	if d.Handlers = len(handlers) > 0; d.Handlers {
		d.Effects = append(d.Effects, "Its handlers run then: "+named(handlers))
	}
	if !p.Run.Over() {
		d.Canceled, err = s.findCancel(ctx, &p.Run.Run)
	}
	return err
}

// named lists steps by name, some of many.
func named(steps []string) string {
	text := make([]string, 0, maxNamed)
	for _, step := range steps[:min(len(steps), maxNamed)] {
		text = append(text, runview.InlineText(step))
	}
	line := strings.Join(text, ", ")
	if more := len(steps) - len(text); more > 0 {
		line += fmt.Sprintf(" and %d more", more)
	}
	return line + "."
}

const approvalsOfMine = "/approvals?mine=1"

// decides reports whether a verb answers an approval. Its approvers need not see the run that it is of.
func decides(verb dagrun.Verb) bool { return verb == dagrun.VerbApprove || verb == dagrun.VerbReject }

// readForeign reads an approval of a run that the login may not see, and may decide.
func (s *server) readForeign(ctx context.Context, ask queue.Ask) (*steerData, error) {
	waiting, err := s.store.Approvals(ctx, false, queue.MaxApprovals)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(waiting, func(a queue.Approval) bool { return a.Run == ask.Run && a.Step == ask.Step && a.Item == ask.Item })
	if i < 0 {
		if _, err := s.store.Get(ctx, ask.Run); err != nil {
			return nil, err
		}
		return nil, errNoQuestion
	}
	a := &waiting[i]
	d := &steerData{
		Run: &queue.RunHead{Run: queue.Run{ID: a.Run, DAG: a.DAG}}, Ask: ask, Title: steerTitles[ask.Verb], Back: approvalsOfMine,
		Target: fmt.Sprintf("%s of run %d", runview.TaskName(a.Step, a.Item), a.Run), Command: decisionCommand(&ask, &a.Question),
	}
	d.fillQuestion(&a.Question, s.rights(ctx).Approve)
	return d, nil
}

// fillQuestion says what an approval asks. The form of a login that may decide has a field for each input.
func (d *steerData) fillQuestion(q *queue.Question, may bool) {
	d.Question, d.May, d.Effects = q, may, runview.QuestionLines(q)
	if may {
		d.Effects = runview.PromptLines(q)
	}
}

// decisionCommand is the command that decides an approval, as the list of approvals has it.
func decisionCommand(ask *queue.Ask, q *queue.Question) string {
	if ask.Verb == dagrun.VerbApprove && ask.Outputs == nil {
		return runview.ApproveCommand(ask.Run, runview.TaskName(ask.Step, ask.Item), q)
	}
	return runview.AskCommand(ask)
}

// errNoQuestion says that a step has nothing to decide.
var errNoQuestion = &refusal{status: http.StatusConflict, message: "It waits for no approval.", hint: "Somebody decided it, or it does not wait yet."}

// taskPage is the page of a run with the task that was asked about.
func taskPage(ask queue.Ask) runQuery {
	return runQuery{Kind: runKind, ID: ask.Run, View: views[0], Task: taskQuery{Step: ask.Step, Item: ask.Item}}
}

// fillDecision finds what the approval asks.
func (s *server) fillDecision(ctx context.Context, p *runPage, d *steerData) error {
	task := &p.summary(d.Ask.Step).Task
	if d.Ask.Item != "" {
		detail, err := s.store.TaskDetail(ctx, d.Ask.Run, d.Ask.Step, d.Ask.Item)
		if err != nil {
			return err
		}
		task = &detail.Task
	}
	if task.Approval == nil {
		return errNoQuestion
	}
	d.fillQuestion(task.Approval, task.Approval.MayDecide && p.Rights.Approve)
	d.Command = decisionCommand(&d.Ask, d.Question)
	return nil
}

// fillRetry says which steps run again, and leads to the other choices.
func (d *steerData) fillRetry(p *runPage) {
	link := func(mode dagrun.RetryMode, step, item string) string {
		v := url.Values{"mode": {mode.String()}}
		if step != "" {
			v.Set("step", step)
		}
		if item != "" {
			v.Set("item", item)
		}
		return runPath(d.Ask.Run) + "/retry?" + v.Encode()
	}
	for _, c := range []struct {
		mode  dagrun.RetryMode
		title string
	}{
		{dagrun.RetryFailed, "What failed"}, {dagrun.RetryFrom, "From a step on"}, {dagrun.RetryStep, "One step alone"}, {dagrun.RetryAll, "Everything"},
	} {
		step, item := d.Ask.Step, d.Ask.Item // stay chosen from one to the other of those that take them
		if c.mode == dagrun.RetryFailed || c.mode == dagrun.RetryAll {
			step, item = "", ""
		}
		d.Modes = append(d.Modes, retryChoice{c.title, link(c.mode, step, item), c.mode == d.Ask.Mode})
	}
	if d.Ask.Mode == dagrun.RetryFrom || d.Ask.Mode == dagrun.RetryStep {
		for i := range p.steps {
			if step := p.steps[i].Step; !strings.HasPrefix(step, "@") {
				d.Steps = append(d.Steps, retryChoice{step, link(d.Ask.Mode, step, ""), step == d.Ask.Step})
			}
		}
	}
	if !p.Run.Over() {
		d.Effects, d.May = []string{"The run has not ended, so it refuses. Wait for its end, or cancel it first."}, false
		return
	}
	if again := p.runsAgain(d.Ask); len(again) > 0 {
		d.Effects = []string{"These run again: " + named(again), "All else is kept as it is. The run keeps its number, version and params."}
	} else if d.Ask.Mode == dagrun.RetryFailed {
		d.Effects = []string{"Nothing failed, so nothing runs again."}
	}
}

// runsAgain are the steps that a retry resets, with what depends on them.
func (p *runPage) runsAgain(ask queue.Ask) (again []string) {
	if p.dag == nil {
		return nil
	}
	g := p.dag.Graph
	reset := map[int]bool{}
	var add func(i int, below bool)
	add = func(i int, below bool) {
		if reset[i] {
			return
		}
		reset[i] = true
		for _, child := range g.Children(i) {
			if below {
				add(child.Step, below)
			}
		}
	}
	for i := range p.steps {
		t := &p.steps[i]
		at, ok := g.StepIndex(runview.StepOf(t.Step))
		failed := t.Failed != "" || slices.Contains([]string{"failed", "upstream_failed", "canceled"}, t.State)
		switch {
		case !ok || strings.HasPrefix(t.Step, "@"):
		case ask.Mode == dagrun.RetryAll, ask.Mode == dagrun.RetryFailed && failed, ask.Mode == dagrun.RetryFrom && t.Step == ask.Step:
			add(at, true)
		case ask.Mode == dagrun.RetryStep && t.Step == ask.Step:
			add(at, false)
		}
	}
	for i := range p.steps {
		step := p.steps[i].Step
		if at, ok := g.StepIndex(step); ok && reset[at] {
			if step == ask.Step {
				step = runview.TaskName(step, ask.Item)
			}
			again = append(again, step)
		}
	}
	return again
}

// decision is what the form of an approval needs.
type decision struct {
	Run        queue.RunID
	Step, Item string
	Question   *queue.Question
	sent       url.Values // that is shown again
	refused    bool       // it was sent as an approval
}

// Fields are those of the inputs and the comment, with what was sent, and with what is wrong with that.
func (d decision) Fields() []*formField {
	var fields []*formField
	for _, in := range d.Question.Inputs {
		f := &formField{Name: inputPrefix + in.Name, Label: in.Name, Kind: textField, About: "text", Required: in.Required}
		f.set(sentText(d.sent.Get(f.Name)))
		if d.refused && in.Required && f.Value == "" {
			f.Problem = "The approval needs it."
		}
		fields = append(fields, f)
	}
	comment := &formField{Name: commentName, Label: "comment", Kind: textField}
	comment.set(sentText(d.sent.Get(commentName)))
	return append(fields, comment)
}

// Acts reports whether the page offers to decide: an approver need not be able to steer the run.
func (p *runPage) Acts() bool { return p.Rights.Approve }

// Decide is the form of the approval in the panel.
func (p *runPage) Decide(n *panel) decision {
	return decision{Run: p.Query.ID, Step: n.Task.Step, Item: n.Task.Item, Question: n.Question}
}

// Decide is the form of the page's own approval.
func (d *steerData) Decide() decision {
	return decision{d.Ask.Run, d.Ask.Step, d.Ask.Item, d.Question, d.sent, d.sent != nil && d.Ask.Verb == dagrun.VerbApprove}
}

// Outputs are those of a mark, as they were sent.
func (d *steerData) Outputs() string { return d.sent.Get("outputs") }

// Button is what the form's button says.
func (d *steerData) Button() string {
	switch {
	case d.Ask.Verb == dagrun.VerbCancel && (d.Ask.Now || d.Canceled != nil):
		return "Cancel now, skip handlers"
	case d.Ask.Verb == dagrun.VerbCancel:
		return "Cancel it"
	}
	return d.Title
}
