package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// decisionPatience is how long a command waits for the drivers of runs to decide. A live driver takes milliseconds. If the
// run has no driver, the decision comes only when a worker has room, which may take forever.
const decisionPatience = "3s"

func withinFlag() cli.Flag {
	return &cli.StringFlag{Name: "within", Usage: "wait at most this `DURATION` for the workers to decide the request", Value: decisionPatience}
}

// controlCmd is one command line that sends a control to runs: cancel, pause, resume, retry, approve or mark.
type controlCmd struct {
	env    *env
	verb   dagrun.Verb
	target target
	choose selection
	within time.Duration // how long to wait for decisions
	wait   bool          // wait for the end of the runs too
	how    waiting
	send   func(context.Context, *queue.Store, queue.RunID) (controlResult, error)

	store *queue.Store
	until context.Context //nolint:containedctx // ends with --timeout
	many  bool
	done  []runview.ControlJSON
	count int   // runs that were asked
	bad   int   // runs that refused, or that could not be asked
	worst *kind // the kind of error of these with the highest exit status
	last  error // the last error of these; the command fails with it if there is only one run
}

// controlResult is the outcome of a request.
type controlResult struct {
	queue.Control
	retryOf queue.RunID // the run that the new run retries
	waits   string      // what keeps a cancel from being carried out; "": nothing
}

// sending returns a function that sends ask to the run that it is called with. Most verbs use it.
func sending(ask queue.Ask) func(context.Context, *queue.Store, queue.RunID) (controlResult, error) {
	return func(ctx context.Context, store *queue.Store, run queue.RunID) (controlResult, error) {
		ask.Run = run
		c, err := store.Control(ctx, ask)
		return controlResult{Control: c}, err
	}
}

// newAsking reads the arguments RUN… [STEP], or the flags that select runs instead. It returns a usageError for both and for
// neither. states are the states of the runs that flags select without --state; nil means that the command has no such flags.
func newAsking(c *cli.Context, e *env, verb dagrun.Verb, states []string) (*controlCmd, error) {
	a := &controlCmd{env: e, verb: verb}
	var err error
	if a.target, err = parseTarget(verb.String(), c.Args().Slice()); err != nil {
		return nil, err
	}
	within, err := dagspec.ParseDuration(c.String("within"))
	if err != nil {
		return nil, &usageError{msg: "--within: " + err.Error()}
	}
	a.within = time.Duration(within) * time.Millisecond
	if states != nil {
		if a.choose, err = readSelection(c, states); err != nil {
			return nil, err
		}
	}
	switch named := len(a.target.runs) > 0; {
	case named && a.choose.asked:
		return nil, &usageError{msg: "a command cannot both name runs and select runs by flags", hint: "leave out --state, --dag, --queue, --label and --since, or leave out the numbers of the runs"}
	case !named && !a.choose.asked && states != nil:
		return nil, &usageError{msg: verb.String() + " needs a run", hint: "name the run by its number or by " + latestWord + ", or select runs by --state, --dag, --queue, --label, --since"}
	case !named && !a.choose.asked:
		return nil, &usageError{msg: verb.String() + " needs a run", hint: "name the run by its number or by " + latestWord}
	}
	a.many = a.choose.asked || len(a.target.runs) > 1
	return a, nil
}

// waitFlags are the flags that belong to --wait: the timeout and the form of the progress.
func waitFlags() []cli.Flag {
	timeout := &cli.StringFlag{Name: timeoutFlag, Usage: "with --wait: stop waiting after this `DURATION` in total; the runs go on"}
	return append([]cli.Flag{timeout}, progressFlags("plain or none")...)
}

// readWait sets a.wait and a.how from --wait and the flags that belong to it. It returns a usageError for --timeout without --wait.
func (a *controlCmd) readWait(c *cli.Context) (err error) {
	a.wait = c.Bool("wait")
	a.how, err = a.env.readWaiting(c, "wait", false)
	return err
}

func (a *controlCmd) run(ctx context.Context) error {
	var stop context.CancelFunc
	a.until, stop = a.how.bounded(ctx)
	defer stop()
	if a.env.settings.Text("output") == "json" {
		a.done = []runview.ControlJSON{}
	}
	return a.env.withStore(ctx, func(store *queue.Store) error {
		a.store = store
		if a.choose.dryRun {
			return a.rehearse(ctx)
		}
		if err := a.all(ctx); err != nil {
			return err
		}
		return a.finish()
	})
}

// all sends the request to the runs that the user named, or page after page to the runs that the flags select. It remarks if the
// flags select more runs than --limit allows.
func (a *controlCmd) all(ctx context.Context) error {
	if !a.choose.asked {
		ids, err := a.target.find(ctx, a.store)
		if err != nil {
			return err
		}
		return a.some(ctx, ids)
	}
	var last queue.RunID
	for runs, err := range a.choose.pages(ctx, a.store) {
		if err != nil {
			return err
		}
		ids := make([]queue.RunID, len(runs))
		for i := range runs {
			ids[i] = runs[i].ID
		}
		if err := a.some(ctx, ids); err != nil {
			return err
		}
		last = ids[len(ids)-1]
	}
	return a.remarkMore(ctx, last)
}

// some sends the request to all runs first and awaits the outcomes afterwards, so that their drivers decide at the same time. It
// reports each outcome, and counts the runs in a.count. It returns an error only if the command must end.
func (a *controlCmd) some(ctx context.Context, ids []queue.RunID) error {
	var open []controlResult
	for _, id := range ids {
		a.count++
		got, err := a.send(ctx, a.store, id)
		if err != nil {
			if err := a.failed(ctx, a.foreign(ctx, id, err)); err != nil {
				return err
			}
			continue
		}
		open = append(open, got)
	}
	patience, cancel := context.WithTimeout(a.until, a.within)
	defer cancel()
	for _, got := range open {
		watch := a.watcher(got.Run)
		if a.wait && got.Outcome == "" {
			if err := watch.look(ctx); err != nil { // shows what the decision itself waits for
				return err
			}
		}
		got, err := a.decided(patience, got)
		if err == nil {
			got, err = a.unheld(ctx, got)
		}
		if err == nil && a.wait {
			got, err = a.ended(ctx, watch, got)
		}
		if err != nil {
			return err
		}
		if err := a.report(got); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// foreign replaces the refusal "there is no run" by an error that names the submitter, if the user may see the run but not
// steer it. It returns any other error unchanged.
func (a *controlCmd) foreign(ctx context.Context, id queue.RunID, err error) error {
	refusal, ok := errors.AsType[*queue.Error](err)
	if !ok || !errors.Is(err, queue.ErrNotFound) || refusal.Object != "runs" {
		return err
	}
	r, seen := a.store.Get(ctx, id)
	if seen != nil {
		return err
	}
	return &failure{kind: notFound, err: fmt.Errorf("run %d was submitted by %s: you may steer only your own runs", id, r.SubmittedBy), hint: grantHint(toAdmin)}
}

// failed returns err if it must end the command: if there is only one run, or if all other runs would meet the error too. Otherwise
// it prints the error, counts the run as bad, and returns nil.
func (a *controlCmd) failed(ctx context.Context, err error) error {
	p := diagnose(ctx, err)
	switch p.exit {
	case exitError, exitNotFound, exitConflict, exitInvalid:
		if a.many {
			a.env.report(p, nil)
			a.blame(p.kind, err)
			return nil
		}
	default:
	}
	return err
}

func (a *controlCmd) blame(k kind, err error) {
	a.bad++
	a.last = err
	if a.worst == nil || k.exit > a.worst.exit {
		a.worst = &k
	}
}

// decided waits until the run's driver has decided. If patience ends first, it returns the request undecided, without an
// error.
func (a *controlCmd) decided(patience context.Context, got controlResult) (controlResult, error) {
	if got.Outcome != "" {
		return got, nil
	}
	c, err := a.store.AwaitControl(patience, got.Control)
	switch {
	case err == nil:
		got.Control = c
	case errors.Is(patience.Err(), context.DeadlineExceeded):
		err = nil // the driver decides later
	}
	return got, err
}

// unheld sets got.waits to the reason why no worker takes a run, if its cancel was accepted and needs a worker. If the command then
// waits for the end of the run, unheld tells the user at once. It returns other outcomes unchanged.
func (a *controlCmd) unheld(ctx context.Context, got controlResult) (controlResult, error) {
	if got.Outcome != dagrun.Accepted || got.Message == "" {
		return got, nil
	}
	r, err := a.store.Get(ctx, got.Run)
	if err != nil {
		return got, err
	}
	got.waits = runview.CancelWaits(&got.Control, r)
	if got.waits != "" && a.wait && a.how.progress == progressPlain {
		a.env.remark("run %d: %s", got.Run, got.waits)
	}
	return got, nil
}

// watcher returns the watcher of one run. If there are several runs, it shows only the states of the runs, not their tasks.
func (a *controlCmd) watcher(id queue.RunID) *watcher {
	w := a.env.newWatcher(a.store, id, a.how.progress)
	w.brief = a.many
	return w
}

// ended waits for the end of a run, unless the request was refused, and sets got.State. If the run does not end within --timeout,
// or does not end as the verb wants, the command fails later, and ended returns no error.
func (a *controlCmd) ended(ctx context.Context, watch *watcher, got controlResult) (controlResult, error) {
	if got.Outcome == dagrun.Refused {
		return got, nil
	}
	if err := watch.follow(a.until); err != nil && (ctx.Err() != nil || a.until.Err() == nil) {
		return got, err
	}
	r, err := a.store.Get(ctx, got.Run)
	if err != nil {
		return got, a.how.lateAway(ctx, a.until, got.Run, err)
	}
	got.State = r.State
	if !r.Over() {
		late := a.how.late(r)
		a.blame(late.kind, late)
		return got, nil
	}
	switch end := runEnd(r); {
	case a.verb == dagrun.VerbRetry && end != nil:
		a.blame(end.kind, end)
	case a.verb == dagrun.VerbCancel && r.State != "canceled":
		err := &failure{kind: conflict, err: fmt.Errorf("run %d ended %s", got.Run, r.State)}
		a.blame(err.kind, err)
	}
	return got, nil
}

// finish prints the list of outcomes for JSON, or that the flags selected no run. It returns the error of the command: nil unless a
// run refused, could not be asked, or did not end as awaited.
func (a *controlCmd) finish() error {
	if a.done != nil {
		if err := a.env.say(a.object()); err != nil {
			return err
		}
	}
	switch {
	case a.count == 0:
		a.env.remark("the flags select no run: nothing was sent")
	case a.worst == nil:
	case a.many:
		return &failure{kind: *a.worst, err: fmt.Errorf("%s: %d of %s %s", a.verb, a.bad, runview.Count(a.count, "run"), a.trouble())}
	default:
		return a.last
	}
	return nil
}

func (a *controlCmd) trouble() string {
	if a.wait {
		return "refused, or ended in another way"
	}
	return "refused"
}

// report prints the outcome of one request, or keeps it in a.done for one JSON list. A refusal also decides the exit code of
// the command. If the only run refused, report prints no text, because the error at the end says everything.
func (a *controlCmd) report(got controlResult) error {
	j := runview.NewControlJSON(&got.Control, got.retryOf)
	if got.Outcome == dagrun.Refused {
		a.blame(conflict, &failure{kind: conflict, err: errors.New(runview.RefusalText(&got.Control)), hint: runview.RefusalHint(&got.Control)})
	}
	if a.done != nil {
		a.done = append(a.done, j)
		return nil
	}
	one := answer{object: j, ids: []string{decimal(cmp.Or(got.ID, int64(got.Run)))}}
	if a.many || got.Outcome != dagrun.Refused {
		one.text = a.line(&got)
	}
	return a.env.say(one)
}

// object returns the outcomes in a.done as an array. For a single run that the user named it returns the only outcome itself.
func (a *controlCmd) object() answer {
	if !a.many && len(a.done) == 1 {
		return answer{object: a.done[0]}
	}
	return answer{object: a.done}
}

// line describes an outcome on one line for people: run 41: cancel accepted, still running.
func (a *controlCmd) line(c *controlResult) string {
	paint := a.env.stdoutPaint()
	what := runview.AskedOf(&c.Control)
	word, rest := runview.Outcome(&c.Control)
	switch {
	case c.retryOf != 0 && c.State == "queued":
		return fmt.Sprintf("%s: a new run, %s from run %d\n", what, paint.Good("made"), c.retryOf)
	case c.Outcome == dagrun.Refused:
		word = paint.Bad(word)
	case c.Outcome == "":
		word = paint.Warn(word)
	case c.waits != "" && !a.wait:
		return fmt.Sprintf("%s: %s\n", what, c.waits)
	default:
		word = paint.Good(word)
	}
	return fmt.Sprintf("%s: %s %s%s\n", what, a.verb, word, rest)
}

func (a *controlCmd) remarkMore(ctx context.Context, last queue.RunID) error {
	if last == 0 || a.count < a.choose.most {
		return nil
	}
	more, err := a.choose.more(ctx, a.store, last)
	if more {
		a.env.remark("the limit of %s is reached, and the flags select more runs: repeat the command, or raise --limit", runview.Count(a.count, "run"))
	}
	return err
}

type jsonRehearsed struct {
	Run       int64      `json:"run"`
	DAG       string     `json:"dag"`
	State     string     `json:"state"`
	Reason    string     `json:"reason"`
	CreatedAt *time.Time `json:"created_at"`
}

// rehearse prints the runs that the command would ask, and says that nothing was sent.
func (a *controlCmd) rehearse(ctx context.Context) error {
	runs, err := a.chosen(ctx)
	if err != nil {
		return err
	}
	paint := a.env.stdoutPaint()
	object := []jsonRehearsed{}
	all := answer{lines: []any{}, ids: []string{}}
	t := term.Table{Head: paint.head("RUN", "DAG", "STATE", "CREATED", "REASON")}
	for i := range runs {
		r := &runs[i]
		j := jsonRehearsed{int64(r.ID), r.DAG, r.State, r.Reason, runview.TimeOrNull(r.CreatedAt)}
		object = append(object, j)
		all.lines = append(all.lines, j)
		all.ids = append(all.ids, decimal(j.Run))
		t.Rows = append(t.Rows, []string{decimal(j.Run), r.DAG, paint.runState(r.State), runview.LocalTime(r.CreatedAt), paint.Dim(runview.RunNote(r))})
	}
	all.object = object
	if len(runs) > 0 {
		all.text = a.env.fitted(t.String())
	}
	if err := a.env.say(all); err != nil {
		return err
	}
	whom := runview.Count(len(runs), "run")
	if a.target.step != "" {
		whom = "step " + runview.TaskName(a.target.step, a.target.item) + " of " + whom
	}
	a.env.remark("without --dry-run the command would %s %s; nothing was sent", a.verb, whom)
	return nil
}

func (a *controlCmd) chosen(ctx context.Context) (runs []queue.Run, err error) {
	if a.choose.asked {
		for page, err := range a.choose.pages(ctx, a.store) {
			if err != nil {
				return nil, err
			}
			runs = append(runs, page...)
		}
		return runs, nil
	}
	ids, err := a.target.find(ctx, a.store)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		r, err := a.store.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		runs = append(runs, *r)
	}
	return runs, nil
}
