package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/doctor"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// progress is how a command shows what happens while it waits for a run.
type progress string

const (
	progressLive  progress = "live"  // a page on the terminal, drawn again and again
	progressPlain progress = "plain" // a line on standard error for each change
	progressNone  progress = "none"
)

const progressFlag, quietFlag, timeoutFlag = "progress", "quiet", "timeout"

var progressForms = []string{string(progressLive), string(progressPlain), string(progressNone)}

// progressFlags are the flags that choose how a waiting command shows progress. forms lists the allowed forms for the help.
func progressFlags(forms string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: progressFlag, Usage: "show progress while waiting as `FORM`: " + forms, DefaultText: "see below"},
		&cli.BoolFlag{Name: quietFlag, Aliases: []string{"q"}, Usage: "the same as --progress none"},
	}
}

const (
	progressAbout = `While the command waits, it shows the run live if standard output is a terminal. Otherwise it prints lines on standard
error (plain). With -o json or jsonl it shows nothing, unless you give --progress plain. A step with many items gets
one line for each tenth of its items.
`
	plainAbout = `While --wait waits, standard error says what happens; with -o json or jsonl only if you give --progress plain.
--timeout limits only the waiting: the runs go on.
`
)

// readProgress returns the form of progress that the flags choose. Without flags it is live on a terminal, none with JSON, and
// otherwise plain. live says that the command can draw a page; if not, plain takes the place of live. It returns a usageError for a
// form that does not exist or is not possible here.
func (e *env) readProgress(c *cli.Context, live bool) (progress, error) {
	format := e.settings.Text("output")
	given := c.String(progressFlag)
	live = live && format == "table" && e.StdoutTTY
	switch {
	case c.Bool(quietFlag) && given != "":
		return "", &usageError{msg: "--quiet and --progress exclude each other", hint: "give --quiet or --progress"}
	case c.Bool(quietFlag):
		return progressNone, nil
	case given == "" && live:
		return progressLive, nil
	case given == "" && isJSON(format):
		return progressNone, nil
	case given == "":
		return progressPlain, nil
	case !slices.Contains(progressForms, given):
		return "", &usageError{
			msg:  fmt.Sprintf("--progress: there is no form %q", given),
			hint: cmp.Or(config.DidYouMean(given, progressForms), "the forms are "+config.OrList(progressForms)),
		}
	case given == string(progressLive) && !live:
		return "", &usageError{msg: "--progress live needs a command that waits for one run, -o table, and a terminal as standard output", hint: "use --progress plain, or leave out --progress"}
	}
	return progress(given), nil
}

// waiting is how long a command waits for a run, and what it shows meanwhile and at the end.
type waiting struct {
	progress progress
	all      bool          // each item has a line at the end
	timeout  time.Duration // 0: no limit
}

// readWaiting reads --timeout and the flags of progress. --timeout is a usageError without flag, the name of the flag that makes
// the command wait. If live is set, the command can draw a page.
func (e *env) readWaiting(c *cli.Context, flag string, live bool) (w waiting, err error) {
	if c.IsSet(timeoutFlag) && !c.Bool(flag) {
		return w, &usageError{msg: fmt.Sprintf("--timeout limits the waiting of --%s, which is missing", flag), hint: fmt.Sprintf("add --%s, or leave out --timeout", flag)}
	}
	if w.timeout, err = duration("--"+timeoutFlag, c.String(timeoutFlag)); err != nil {
		return w, err
	}
	w.progress, err = e.readProgress(c, live)
	return w, err
}

// bounded returns a context that ends with ctx, and after w.timeout if there is one.
func (w *waiting) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, w.timeout)
}

// late returns the timeout failure for a run that is not over after w.timeout.
func (w *waiting) late(run *queue.Run) *failure {
	text := fmt.Sprintf("run %d is still %s after %s", run.ID, run.State, dagspec.Duration(w.timeout.Milliseconds()))
	if run.Reason != "" {
		text += ": " + runview.Printable(run.Reason)
	}
	return &failure{kind: timedOut, err: fmt.Errorf("%s", text), hint: goesOn(run.ID)}
}

// lateAway returns the error for a wait that ended while the database was away: the state of the run is unknown then, and the wait
// has timed out. It returns err unchanged if bounded has not ended, or if err has another reason. bounded is ctx with the timeout
// of the wait.
func (w *waiting) lateAway(ctx, bounded context.Context, id queue.RunID, err error) error {
	if bounded.Err() == nil || diagnose(ctx, err).kind != unreachable {
		return err
	}
	text := fmt.Sprintf("run %d had not ended when the database last answered, and %s are over: %s",
		id, dagspec.Duration(w.timeout.Milliseconds()), doctor.Explain(err))
	return &failure{kind: timedOut, err: errors.New(text), hint: goesOn(id)}
}

func goesOn(id queue.RunID) string {
	return fmt.Sprintf("the run goes on: `%s status %d -w`", program, id)
}

// Bounds of commands on selected runs.
const (
	selectPage    = 100 // runs of one page
	selectDefault = 1000
	selectMost    = 100_000
)

var runStates = []string{"scheduled", "queued", "running", "waiting", "paused", "succeeded", "failed", "canceled"}

// selection selects runs by their properties.
type selection struct {
	filter queue.Filter
	most   int
	asked  bool // the user gave a flag that selects
	dryRun bool
}

func selectionFlags(states string) []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "state", Usage: "select runs in this `STATE`; may be repeated (default " + states + ")"},
		&cli.StringFlag{Name: "dag", Usage: "select runs of this `DAG`"},
		&cli.StringFlag{Name: "queue", Usage: "select runs of this `QUEUE`"},
		&cli.StringSliceFlag{Name: "label", Aliases: []string{"l"}, Usage: "select runs with this label, as `NAME=VALUE`; may be repeated"},
		&cli.StringFlag{Name: "since", Usage: "select runs made since `TIME`: a time, or a duration like 2h"},
		&cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Usage: "select at most `N` runs, newest first", Value: selectDefault},
		&cli.BoolFlag{Name: "dry-run", Usage: "only print the selected runs"},
		withinFlag(),
	}
}

// readSelection returns the selection that the flags describe. states are the states to select if no --state is given; nil means
// all states. It returns a usageError for bad values.
func readSelection(c *cli.Context, states []string) (selection, error) {
	s := selection{most: c.Int("limit"), dryRun: c.Bool("dry-run")}
	for _, name := range []string{"state", "dag", "queue", "label", "since"} {
		s.asked = s.asked || c.IsSet(name)
	}
	for _, state := range c.StringSlice("state") {
		if !slices.Contains(runStates, state) {
			hint := cmp.Or(config.DidYouMean(state, runStates), "the states are "+config.OrList(runStates))
			return s, &usageError{msg: fmt.Sprintf("--state: a run is never %q", state), hint: hint}
		}
	}
	if s.most < 1 || s.most > selectMost {
		return s, &usageError{msg: fmt.Sprintf("--limit is from 1 to %d, not %d", selectMost, s.most)}
	}
	labels, err := pairs("--label", c.StringSlice("label"))
	if err != nil {
		return s, err
	}
	since, err := moment(c.String("since"), time.Now())
	if err != nil {
		return s, err
	}
	s.filter = queue.Filter{
		DAG: c.String("dag"), Queue: c.String("queue"), Labels: labels, Since: since,
		States: c.StringSlice("state"),
	}
	if len(s.filter.States) == 0 {
		s.filter.States = states
	}
	return s, nil
}

// pages yields the selected runs, at most s.most, newest first and page by page. Pages go by run number, so a run that changes in
// between is yielded at most once. An error is the last thing that it yields.
func (s selection) pages(ctx context.Context, store *queue.Store) iter.Seq2[[]queue.Run, error] {
	return func(yield func([]queue.Run, error) bool) {
		f, left := s.filter, s.most
		for left > 0 {
			f.Limit = min(selectPage, left)
			page, err := store.List(ctx, f)
			if err != nil {
				yield(nil, err)
				return
			}
			if len(page.Runs) > 0 && !yield(page.Runs, nil) || page.Next == 0 {
				return
			}
			left -= len(page.Runs)
			f.Before = page.Next
		}
	}
}

// more reports whether the selection has runs that are older than last.
func (s selection) more(ctx context.Context, store *queue.Store, last queue.RunID) (bool, error) {
	f := s.filter
	f.Before, f.Limit = last, 1
	page, err := store.List(ctx, f)
	return len(page.Runs) > 0, err
}

// runEnd returns the error with which the end of an awaited run ends the command. It returns nil if the run succeeded, or is not
// over.
func runEnd(run *queue.Run) *failure {
	k := runFailed
	switch run.State {
	case "failed":
	case "canceled":
		k = runCanceled
	default:
		return nil
	}
	return &failure{
		kind: k,
		err:  fmt.Errorf("run %d %s: %s", run.ID, run.State, cmp.Or(runview.Printable(runview.RunReason(run, nil)), "no reason given")),
		hint: fmt.Sprintf("`%s status %d` shows the tasks of the run", program, run.ID),
	}
}

// Exit statuses of commands that wait for a run.
var (
	lateNote        = exitNote{exitTimeout, "--wait: a run did not end in time; it goes on"}
	runFailedNote   = exitNote{exitRunFailed, "the run failed"}
	runCanceledNote = exitNote{exitRunCanceled, "the run was canceled"}
)
