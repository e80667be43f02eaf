package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// progressFlags are the flags that choose how a waiting command shows what happens.
func progressFlags(forms string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: progressFlag, Usage: "while it waits, show what goes on as `FORM`: " + forms, DefaultText: "see below"},
		&cli.BoolFlag{Name: quietFlag, Aliases: []string{"q"}, Usage: "the same as --progress none"},
	}
}

const (
	progressAbout = `What goes on meanwhile is shown live where standard output is a terminal, else as lines on standard error (plain). With
-o json or jsonl nothing is, unless --progress plain asks for it. Of a step
with many items there is a line for each tenth.
`
	plainAbout = `While --wait waits, lines on standard error say what goes on; not with -o json or jsonl, unless --progress plain
asks for it. --timeout bounds the waiting, and the runs go on.
`
)

// readProgress reads the flags. live: the command can draw a page, which is then the default on a terminal.
func (e *env) readProgress(c *cli.Context, live bool) (progress, error) {
	format := e.settings.Text("output")
	given := c.String(progressFlag)
	live = live && format == "table" && e.StdoutTTY
	switch {
	case c.Bool(quietFlag) && given != "":
		return "", &usageError{msg: "--quiet and --progress exclude each other", hint: "give one of them"}
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
			hint: cmp.Or(config.DidYouMean(given, progressForms), "one of "+config.OrList(progressForms)),
		}
	case given == string(progressLive) && !live:
		return "", &usageError{msg: "--progress live draws one run on a terminal, and there is none here", hint: "use --progress plain, or leave it out"}
	}
	return progress(given), nil
}

// waiting is how long a command waits for a run, and what it shows meanwhile and at the end.
type waiting struct {
	progress progress
	all      bool          // each item has a line at the end
	timeout  time.Duration // 0: no limit
}

// readWaiting reads --timeout, which is valid only with the flag that makes the command wait, and the flags of progress.
func (e *env) readWaiting(c *cli.Context, flag string, live bool) (w waiting, err error) {
	if c.IsSet(timeoutFlag) && !c.Bool(flag) {
		return w, &usageError{msg: fmt.Sprintf("--timeout bounds a --%s, and there is none", flag), hint: fmt.Sprintf("add --%s, or leave it out", flag)}
	}
	if w.timeout, err = duration("--"+timeoutFlag, c.String(timeoutFlag)); err != nil {
		return w, err
	}
	w.progress, err = e.readProgress(c, live)
	return w, err
}

// bounded returns a context that ends when the waiting times out.
func (w *waiting) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, w.timeout)
}

// late returns the failure of a command if its run did not end in time.
func (w *waiting) late(run *queue.Run) *failure {
	text := fmt.Sprintf("run %d is still %s after %s", run.ID, run.State, dagspec.Duration(w.timeout.Milliseconds()))
	if run.Reason != "" {
		text += ": " + runview.Printable(run.Reason)
	}
	return &failure{kind: timedOut, err: fmt.Errorf("%s", text), hint: goesOn(run.ID)}
}

// lateAway returns the error of a wait that ended while the database was away: the state of the run is unknown then, and
// the wait has timed out. It returns any other error unchanged. bounded is ctx with the timeout of the wait.
func (w *waiting) lateAway(ctx, bounded context.Context, id queue.RunID, err error) error {
	if bounded.Err() == nil || diagnose(ctx, err).kind != unreachable {
		return err
	}
	text := fmt.Sprintf("run %d had not ended when the database was last there, and %s are over: %s",
		id, dagspec.Duration(w.timeout.Milliseconds()), doctor.Explain(err))
	return &failure{kind: timedOut, err: errors.New(text), hint: goesOn(id)}
}

func goesOn(id queue.RunID) string { return fmt.Sprintf("it goes on: `%s status %d -w`", program, id) }
