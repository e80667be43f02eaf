package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// steerVerbs are the requests to a run or a task. Each has a page of its own that shows the effects beforehand.
var steerVerbs = []dagrun.Verb{
	dagrun.VerbCancel, dagrun.VerbPause, dagrun.VerbResume, dagrun.VerbRetry, dagrun.VerbApprove, dagrun.VerbReject, dagrun.VerbMark,
}

var steerTitles = map[dagrun.Verb]string{
	dagrun.VerbCancel: "Cancel", dagrun.VerbPause: "Pause", dagrun.VerbResume: "Resume", dagrun.VerbRetry: "Retry",
	dagrun.VerbApprove: "Approve", dagrun.VerbReject: "Reject", dagrun.VerbMark: "Mark",
}

// markable are the states that a user may give a step.
var markable = []dagrun.State{dagrun.TaskSucceeded, dagrun.TaskSkipped, dagrun.TaskFailed}

const (
	maxNamed    = 12       // one sentence names up to this many steps
	inputPrefix = "input." // prefix of the fields for the inputs of an approval

	jsonInputPrefix = "input-json." // the same for inputs of type json, which a form sends as JSON
	commentName     = "comment"
	seenField       = "seen" // id of the cancel that the form showed
)

// steerData is the content of the page that sends one request to a run or a task.
type steerData struct {
	Run     *queue.RunHead
	Ask     queue.Ask
	Title   string
	Target  string // run 41, or load of run 41
	Effects []string
	Command string
	Back    string // path of the run's page
	dagLink string
	May     bool
	Problem *refusal   // error in the user's fields
	sent    url.Values // fields that the user sent, to be shown again

	Modes    []retryChoice
	Steps    []retryChoice // steps to choose from, if the mode needs one
	Marks    []dagrun.State
	Question *queue.Question
	Handlers bool           // the run has handlers that a cancel can skip
	Canceled *queue.Control // an earlier cancel of the run; nil: none
}

// retryChoice is a link to the same page with another choice of what runs again.
type retryChoice struct {
	Title, Path string
	On          bool
}

// steerPage returns the page that shows the effects of a request with the verb, and the form that sends it. If the verb needs a
// step and the address names none, or the step waits for no approval to decide, the page redirects to that of the run.
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
		if errors.Is(err, errNoQuestion) { // the page of the run shows how it was decided
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
	if data.Back == approvalsOfMine { // the login does not see the whole run, nor its DAG
		p.Nav, p.Crumbs = "approvals", []crumb{{"Approvals", data.Back}, {fmt.Sprint(data.Run.ID), runPath(data.Run.ID)}, {data.Title, ""}}
	}
	return p
}

// steer returns the action that sends a request with the verb, and redirects to the run's page, which shows the outcome. If the
// user can correct the request, it shows the form again.
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

// guarded returns the problem to show in the form, or nil. It decides as correctable does, but also returns the refusal that only
// approvers decide, because the hint of that names the approvers.
func guarded(err error) *refusal {
	if said, ok := errors.AsType[*queue.Error](err); ok && said.Code == approversDecide {
		return &refusal{status: http.StatusUnprocessableEntity, message: runview.InlineText(said.Message), hint: runview.InlineText(said.Hint)}
	}
	return correctable(err)
}

// steerAgain shows a form again with the user's fields and the problem.
func (s *server) steerAgain(r *http.Request, ask queue.Ask, wrong *refusal) (answer, error) {
	data, err := s.readSteer(r.Context(), ask)
	if err != nil {
		return answer{}, err
	}
	data.Problem, data.sent = wrong, r.PostForm
	return answer{File: "steer.html", Page: steerFrame(data), Status: http.StatusUnprocessableEntity}, nil
}

// unsaid returns a refusal with problem as its message; nil for "".
func unsaid(problem string) *refusal {
	if problem == "" {
		return nil
	}
	return &refusal{status: http.StatusUnprocessableEntity, message: problem}
}

// surprise returns why a cancel of a run must not be sent without asking the user again; "" if it may be sent. seen is the id of
// the cancel that the form showed, "" if it showed none. One reason is a cancel that the form did not show, unless the user chose
// to skip the handlers (ask.Now). The other is that the cancel that it showed no longer counts, as after a retry; surprise then
// also clears ask.Now.
//
// The database has no statement that cancels only if there is no cancel yet, so this check comes before the cancel is sent. If two
// users cancel within the same milliseconds, the second cancel therefore still skips the handlers.
func (s *server) surprise(ctx context.Context, ask *queue.Ask, seen string) (string, error) {
	if ask.Now && seen == "" { // the user chose to skip handlers, whether or not there was a cancel before
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
		return "A cancel was asked for already. A second cancel skips the handlers: send the form again if you want to skip the handlers.", nil
	case seen != "" && (before == nil || strconv.FormatInt(before.ID, 10) != seen):
		ask.Now = false
		return "The run was retried since this page was made, and the cancel that the page showed is over.", nil
	}
	return "", nil
}

// findCancel returns the last cancel of the whole run that came after the run's last retry. It does not count controls that the run
// refused. It returns nil without an error if there is none.
func (s *server) findCancel(ctx context.Context, run *queue.Run) (*queue.Control, error) {
	all, err := s.store.Controls(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	for _, c := range slices.Backward(all) {
		switch {
		case c.Outcome == dagrun.Refused:
		case c.Verb == dagrun.VerbRetry:
			return nil, nil // a cancel before the retry belongs to an earlier generation
		case c.Verb == dagrun.VerbCancel && c.Step == "":
			return &c, nil
		}
	}
	return nil, nil
}

// readAsk parses a request with the verb: the run in the path, the rest in form. problem is an error for the user to correct in the
// form, "" if there is none; err is any other error in the request.
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
		switch {
		case !ask.Mode.NamesStep():
			ask.Step, ask.Item = "", ""
		case ask.Step == "":
			problem = "Choose the step to begin with."
		}
	case dagrun.VerbApprove:
		ask.Outputs, problem = inputsOf(form)
	case dagrun.VerbReject:
		ask.Reason = form.Get(commentName)
	case dagrun.VerbMark:
		problem, err = readMark(&ask, form)
	default:
	}
	return ask, problem, err
}

// needsStep reports whether the verb always names a step: approve, reject and mark do.
func needsStep(verb dagrun.Verb) bool {
	return verb == dagrun.VerbApprove || verb == dagrun.VerbReject || verb == dagrun.VerbMark
}

// inputsOf returns the inputs of an approval that have values, and the comment, as a map by name. It returns nil if there are none.
// problem is an error in an input, for the user to correct.
func inputsOf(form url.Values) (outputs any, problem string) {
	inputs := map[string]any{}
	for name := range form {
		text := form.Get(name)
		if input, ok := strings.CutPrefix(name, inputPrefix); ok && text != "" {
			inputs[input] = text
		}
		if input, ok := strings.CutPrefix(name, jsonInputPrefix); ok && text != "" {
			if !json.Valid([]byte(text)) {
				return nil, fmt.Sprintf("The input %s is not JSON.", runview.InlineText(input))
			}
			inputs[input] = json.RawMessage(text)
		}
	}
	if comment := form.Get(commentName); comment != "" {
		inputs[commentName] = comment
	}
	if len(inputs) == 0 {
		return nil, ""
	}
	return inputs, ""
}

// readMark parses the state and the outputs of a mark into ask. Without a state in form, it is succeeded. problem is an error in
// the outputs, for the user to correct; err is one in the state.
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

// readSteer reads all that the page of a request shows. It refuses a step that the run does not have. For an approve or reject, it
// returns errNoQuestion if the task waits for no approval; if the login does not see the whole run, it reads the approval alone, by
// readForeign.
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
			return nil, &refusal{status: http.StatusNotFound, message: "The run has no step " + runview.InlineText(ask.Step) + ".", hint: "Look at the tasks of the run."}
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
		err = s.fillMark(ctx, p, d)
	case dagrun.VerbPause:
		d.Effects = []string{"The run starts nothing new, and its running tasks finish."}
		if ask.Step != "" {
			d.Effects = []string{"The step is stopped if it runs, and goes on with its next attempt after you resume it."}
		}
	default:
		d.Effects = []string{"The run or the step goes on where it was paused. Timers kept their deadlines."}
	}
	return d, err
}

// fillCancel sets the effects of a cancel, and d.Canceled to an earlier cancel of the run.
func (s *server) fillCancel(ctx context.Context, p *runPage, d *steerData) (err error) {
	if d.Ask.Step != "" {
		d.Effects = []string{"The step is canceled, and all steps that depend on it and have not started."}
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
		d.Effects = append(d.Effects, "These running steps get their kill signal and their grace: "+named(running))
	}
	if len(waiting) > 0 {
		d.Effects = append(d.Effects, "These waiting steps are given up: "+named(waiting))
	}
	if len(pending) > 0 {
		d.Effects = append(d.Effects, "These steps never start: "+named(pending))
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
		d.Effects = append(d.Effects, "After that, these handlers of the run start: "+named(handlers))
	}
	if !p.Run.Over() {
		d.Canceled, err = s.findCancel(ctx, &p.Run.Run)
	}
	return err
}

// named lists the names of steps as the end of a sentence: up to maxNamed, and the number of the others.
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

// decides reports whether a verb decides an approval: approve and reject do. A login may be allowed to send these to a run that it
// does not see.
func decides(verb dagrun.Verb) bool { return verb == dagrun.VerbApprove || verb == dagrun.VerbReject }

// readForeign reads the page of an approval that the login may decide, in a run that it does not see whole. If there is no such
// approval, it returns errNoQuestion for a run that the login sees in part, else queue.ErrNotFound.
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

// fillQuestion sets the question of an approval, and the lines that explain it. may says whether the login can decide: the form
// then has a field for each input, so the lines leave out the inputs.
func (d *steerData) fillQuestion(q *queue.Question, may bool) {
	d.Question, d.May, d.Effects = q, may, runview.QuestionLines(q)
	if may {
		d.Effects = runview.PromptLines(q)
	}
}

// decisionCommand returns the command that decides an approval. For an approve without values so far, the command has an empty
// place for each required input of q.
func decisionCommand(ask *queue.Ask, q *queue.Question) string {
	if ask.Verb == dagrun.VerbApprove && ask.Outputs == nil {
		return runview.ApproveCommand(ask.Run, runview.TaskName(ask.Step, ask.Item), q)
	}
	return runview.AskCommand(ask)
}

// errNoQuestion means that a step has no approval to decide.
var errNoQuestion = &refusal{status: http.StatusConflict, message: "The step waits for no approval.", hint: "Another user decided the approval, or the step does not wait yet."}

// taskPage returns the address of the run's page, with the task that ask names in the panel.
func taskPage(ask queue.Ask) runQuery {
	return runQuery{Kind: runKind, ID: ask.Run, View: views[0], Task: taskQuery{Step: ask.Step, Item: ask.Item}}
}

// askedTask returns the task that ask names. The page has the tasks of steps; those of items are read.
func (s *server) askedTask(ctx context.Context, p *runPage, ask *queue.Ask) (*queue.Task, error) {
	if ask.Item == "" {
		return &p.summary(ask.Step).Task, nil
	}
	detail, err := s.store.TaskDetail(ctx, ask.Run, ask.Step, ask.Item)
	if err != nil {
		return nil, err
	}
	return &detail.Task, nil
}

// fillDecision sets the question of the approval that d.Ask names, whether the login can decide it, and the command that decides
// it. It returns errNoQuestion if the task waits for no approval.
func (s *server) fillDecision(ctx context.Context, p *runPage, d *steerData) error {
	task, err := s.askedTask(ctx, p, &d.Ask)
	if err != nil {
		return err
	}
	if task.Approval == nil {
		return errNoQuestion
	}
	d.fillQuestion(task.Approval, task.Approval.MayDecide && p.Rights.Approve)
	d.Command = decisionCommand(&d.Ask, d.Question)
	return nil
}

// fillMark sets the states that a mark can give to the task that d.Ask names, and the effects. If the run would refuse the mark, or
// the login may not decide the approval that the task waits for, the effects say why, and d.May becomes false.
func (s *server) fillMark(ctx context.Context, p *runPage, d *steerData) error {
	task, err := s.askedTask(ctx, p, &d.Ask)
	if err != nil {
		return err
	}
	d.Marks = markable
	d.Effects = []string{"The run goes on as if the step had ended with this state. A step that runs is killed first."}
	if !task.FinishedAt.IsZero() {
		d.Marks = slices.DeleteFunc(slices.Clone(markable), func(s dagrun.State) bool { return s == dagrun.TaskFailed })
		if !p.wentWrong(task) {
			d.Effects, d.May = []string{"A step that succeeded or was skipped cannot be marked."}, false
		}
		return nil
	}
	if q := task.Approval; q != nil && !q.MayDecide && !p.Rights.Admin {
		d.Effects, d.May = []string{"The step waits for approval, which " + runview.Deciders(q.Approvers, p.Run.SubmittedBy) + " give."}, false
	} else if q != nil {
		d.Effects = append(d.Effects, runview.QuestionLines(q)...)
	}
	return nil
}

// fillRetry sets the modes of a retry, the steps to choose from, and the effects: which steps run again. If the run would
// refuse the retry, the effects say why, and d.May becomes false.
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
	live := !p.Run.Over()
	for _, c := range []struct {
		mode  dagrun.RetryMode
		title string
	}{
		{dagrun.RetryFailed, "What failed"}, {dagrun.RetryFrom, "From a step on"}, {dagrun.RetryStep, "One step alone"}, {dagrun.RetryAll, "Everything"},
	} {
		switch {
		case live && !c.mode.NamesStep():
			continue
		case live && c.mode == dagrun.RetryStep:
			c.title = "One step that failed" // not alone: steps behind it that could not start wait again
		}
		step, item := d.Ask.Step, d.Ask.Item // the step stays chosen when the user changes between modes that take one
		if !c.mode.NamesStep() {
			step, item = "", ""
		}
		d.Modes = append(d.Modes, retryChoice{c.title, link(c.mode, step, item), c.mode == d.Ask.Mode})
	}
	if d.Ask.Mode.NamesStep() {
		for i := range p.steps {
			if step := p.steps[i].Step; !isHandler(step) {
				d.Steps = append(d.Steps, retryChoice{step, link(d.Ask.Mode, step, ""), step == d.Ask.Step})
			}
		}
	}
	switch again := p.runsAgain(d.Ask); {
	case live && d.Ask.Step == "" && d.Steps != nil: // the form says to choose one
	case live && d.Ask.Step == "":
		d.Effects, d.May = []string{"The run has not ended: choose the step to repeat. A retry of the whole run has to wait for the end of the run."}, false
	case d.Ask.Mode == dagrun.RetryFailed && !p.Unfinished():
		d.Effects, d.May = []string{"Nothing failed or was canceled, so nothing would run again."}, false
	case isHandler(d.Ask.Step):
		d.Effects, d.May = []string{"A handler runs again with the steps: choose a step."}, false
	case live && d.Ask.Mode == dagrun.RetryStep:
		d.Effects = []string{"The step runs again, if it failed or was canceled, and steps behind it that could not start because of it wait again. All other steps go on."}
	case len(again) > 0:
		d.Effects = []string{"These steps run again: " + named(again), "All other steps stay as they are. The run keeps its number, version and params."}
	}
}

// StepMode returns the mode in which the page of a run under way offers to retry a step: RetryStep if one went wrong, else RetryFrom
// if one has ended. It returns "" if there is none to retry.
func (p *runPage) StepMode() string {
	mode := ""
	for i := range p.steps {
		switch t := &p.steps[i]; {
		case isHandler(t.Step):
		case t.Failed != "" || p.wentWrong(&t.Task):
			return dagrun.RetryStep.String()
		case !t.FinishedAt.IsZero():
			mode = dagrun.RetryFrom.String()
		}
	}
	return mode
}

// wentWrong reports whether a task may be repeated alone, or marked, while its run is under way. For a replaced step the replacements
// decide. Those of an item are not on the page, so a replaced item may always: the run refuses it if they went well.
func (p *runPage) wentWrong(t *queue.Task) bool {
	if t.State != "replaced" {
		return wentWrong(t.State)
	}
	failed := t.Item != ""
	for i := range p.steps {
		if alt := &p.steps[i]; t.Item == "" && strings.HasPrefix(alt.Step, t.Step+"~") {
			if alt.FinishedAt.IsZero() {
				return false
			}
			failed = failed || wentWrong(alt.State)
		}
	}
	return failed
}

// wentWrong reports whether a task that failed or was canceled ended in this state.
func wentWrong(state string) bool {
	return state == "failed" || state == "upstream_failed" || state == "canceled"
}

func isHandler(step string) bool { return strings.HasPrefix(step, "@") }

// Unfinished reports whether a step or an item failed or was canceled, so that a retry of what failed would run it again.
func (p *runPage) Unfinished() bool {
	return slices.ContainsFunc(p.steps, func(t queue.StepSummary) bool { return p.unfinished(&t) })
}

// unfinished reports whether a step, or an item of it, failed or was canceled. It is false for all steps of a run that succeeded,
// since its failures are tolerated ones.
func (p *runPage) unfinished(t *queue.StepSummary) bool {
	return p.Run.State != "succeeded" && (t.Failed != "" || wentWrong(t.State))
}

// runsAgain returns the steps that a retry runs again, in the order of the graph. They include all steps that depend on these,
// unless the mode is RetryStep. It returns nil if the login is not allowed to read the DAG.
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
		switch {
		case !ok || isHandler(t.Step):
		case ask.Mode == dagrun.RetryAll, ask.Mode == dagrun.RetryFailed && p.unfinished(t), ask.Mode == dagrun.RetryFrom && t.Step == ask.Step:
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

// decision is the form that decides an approval.
type decision struct {
	Run        queue.RunID
	Step, Item string
	Question   *queue.Question
	sent       url.Values // fields that the user sent, to be shown again
	refused    bool       // they were sent as an approval, and did not pass
}

// Fields returns a field for each input, and one for the comment, with the texts that the user sent. If these were refused, a field
// with a text that does not fit has a Problem.
func (d decision) Fields() []*formField {
	var fields []*formField
	for i := range d.Question.Inputs {
		in := &d.Question.Inputs[i]
		prefix := inputPrefix
		if in.Type == "json" {
			prefix = jsonInputPrefix
		}
		f := paramField(in, prefix)
		f.set(sentText(d.sent.Get(f.Name)))
		if d.refused {
			f.Problem = inputProblem(in, f.Value)
		}
		fields = append(fields, f)
	}
	comment := &formField{Name: commentName, Label: "comment", Kind: textField}
	comment.set(sentText(d.sent.Get(commentName)))
	return append(fields, comment)
}

// inputProblem returns why an input cannot have a text from a form, or "".
func inputProblem(in *dagspec.Param, text string) string {
	if text == "" {
		if in.Required {
			return "The approval needs this input."
		}
		return ""
	}
	one := dagspec.Spec{ParamDefs: []dagspec.Param{*in}}
	_, err := one.ParamsFromText(map[string]string{in.Name: text})
	if wrong, ok := errors.AsType[dagspec.ParamErrors](err); ok {
		return wrong[0].Msg
	}
	return ""
}

// Acts reports whether the page offers to decide approvals. The right to do so does not depend on the right to steer the run.
func (p *runPage) Acts() bool { return p.Rights.Approve }

// Decide returns the form for the approval in the panel.
func (p *runPage) Decide(n *panel) decision {
	return decision{Run: p.Query.ID, Step: n.Task.Step, Item: n.Task.Item, Question: n.Question}
}

// Decide returns the form for the page's own approval.
func (d *steerData) Decide() decision {
	return decision{d.Ask.Run, d.Ask.Step, d.Ask.Item, d.Question, d.sent, d.sent != nil && d.Ask.Verb == dagrun.VerbApprove}
}

// Outputs returns the outputs of a mark as the user sent them.
func (d *steerData) Outputs() string { return d.sent.Get("outputs") }

// Button returns the label of the form's button.
func (d *steerData) Button() string {
	switch {
	case d.Ask.Verb == dagrun.VerbCancel && (d.Ask.Now || d.Canceled != nil):
		return "Cancel now, skip handlers"
	case d.Ask.Verb == dagrun.VerbCancel:
		return "Cancel it"
	}
	return d.Title
}
