package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// maxTail bounds --tail, because that many lines are kept in memory.
const maxTail = 100_000

func newLogsCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "print the output of the tasks of a run, and follow it",
		ArgsUsage: "RUN [STEP[/ITEM]]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "follow until the run ends, also through retries and other workers, and exit with its status"},
			&cli.IntFlag{Name: "attempt", Usage: "print attempt `N` instead of the last attempt"},
			&cli.IntFlag{Name: "tail", Usage: "begin the output with the last `N` lines"},
			&cli.StringFlag{Name: "since", Usage: "print only output since `TIME`: a time, or a duration like 10m"},
			&cli.StringFlag{Name: "stream", Usage: "print only this `STREAM`: stdout or stderr"},
			&cli.StringFlag{Name: "grep", Usage: "print only lines that match the regular expression `RE`"},
			&cli.BoolFlag{Name: "timestamps", Aliases: []string{"t"}, Usage: "begin each line with the time of writing"},
			&cli.BoolFlag{Name: "raw", Usage: "print only the bytes, as they were written"},
		},
		Description: manual{
			about: `Prints the last attempt of each task, in the order of writing. RUN is a number or @latest. STEP is a step of the DAG
with its items and replacements, load/eu one item, search~1 a replacement, @exit a handler. If the output is of
several tasks, each line names its task. Secrets are masked, also with --raw. On a terminal, control sequences are
left out. Notes about missing output go to standard error. -o jsonl prints an object for each stored piece, with text,
or with base64 if the piece is not UTF-8.`,
			examples: []string{
				"oarlock logs @latest",
				"oarlock logs 41 load -f",
				`oarlock logs 41 --tail 100 --grep "(?i)error"`,
				"oarlock logs 41 load --attempt 1 --stream stderr -t",
				"oarlock logs 41 dump --raw > dump.bin",
			},
			exits: []exitNote{
				{exitOK, "the output was printed; with -f: the run succeeded"},
				usageNote,
				{exitNotFound, "the run, step or attempt does not exist, or the run is not yours"},
				unreachableNote,
				settingsNote,
				{exitRunFailed, "-f: the run failed"},
				{exitRunCanceled, "-f: the run was canceled"},
			},
		}.String(),
		Action: func(c *cli.Context) error { return runLogs(c, e) },
	}
}

type logsOptions struct {
	query      queue.LogQuery // without the run
	run        runArg
	follow     bool
	raw        bool
	timestamps bool
	tail       int // how many of the last stored lines are printed; -1: all
	stream     queue.Stream
	grep       *regexp.Regexp // lines to print; nil: all
}

func runLogs(c *cli.Context, e *env) error {
	o, err := readLogsOptions(c, e)
	if err != nil {
		return err
	}
	ctx := c.Context
	return e.withStore(ctx, func(store *queue.Store) error {
		if o.query.Run, err = o.run.find(ctx, store); err != nil {
			return err
		}
		return e.showLogs(ctx, store, o)
	})
}

func readLogsOptions(c *cli.Context, e *env) (*logsOptions, error) {
	o := &logsOptions{follow: c.Bool("follow"), raw: c.Bool("raw"), timestamps: c.Bool("timestamps"), tail: -1}
	format := e.settings.Text("output")
	switch lines := c.IsSet("grep") || o.timestamps; {
	case format == "id":
		return nil, &usageError{msg: "this command has nothing to print with -o id", hint: "use -o table, json or jsonl"}
	case o.raw && (lines || isJSON(format)):
		return nil, &usageError{msg: "--raw prints bytes and nothing else", hint: "leave out --grep, --timestamps and -o, or leave out --raw"}
	case c.IsSet("grep") && isJSON(format):
		return nil, &usageError{msg: "--grep searches lines, but JSON output has pieces of logs", hint: "leave out --grep, and filter with jq"}
	case c.IsSet("attempt") && c.Int("attempt") < 1:
		return nil, &usageError{msg: "attempts are counted from 1"}
	case c.IsSet("tail") && (c.Int("tail") < 0 || c.Int("tail") > maxTail):
		return nil, &usageError{msg: fmt.Sprintf("--tail is from 0 to %d", maxTail)}
	}
	if c.IsSet("tail") {
		o.tail = c.Int("tail")
	}
	if err := o.aim(c.Args().Slice()); err != nil {
		return nil, err
	}
	return o, o.filter(c)
}

// aim sets the run and the step of the query from the arguments. It returns a usageError unless they name one run. A step
// without an item means all its items.
func (o *logsOptions) aim(args []string) error {
	t, err := parseTarget("logs", args)
	if err != nil {
		return err
	}
	if len(t.runs) != 1 {
		return &usageError{msg: fmt.Sprintf("logs needs one run, got %d", len(t.runs)), hint: "name the run by its number or by " + latestWord}
	}
	o.run = t.runs[0]
	o.query.Step, o.query.Item = t.step, t.item
	o.query.Whole = t.step != "" && t.item == "" && !strings.Contains(t.step, "~")
	return nil
}

// filter sets the options that restrict the logs from the flags. Without --attempt, the query has the latest attempts only.
func (o *logsOptions) filter(c *cli.Context) (err error) {
	if name := c.String("stream"); name != "" {
		i := slices.Index(runview.StreamNames, name)
		if i < int(queue.StreamStdout) {
			return &usageError{msg: fmt.Sprintf("--stream is stdout or stderr, not %q", name)}
		}
		o.stream = queue.Stream(i)
	}
	if o.query.Since, err = moment(c.String("since"), time.Now()); err != nil {
		return err
	}
	if text := c.String("grep"); text != "" {
		if o.grep, err = regexp.Compile(text); err != nil {
			return &usageError{msg: "--grep: " + strings.TrimPrefix(err.Error(), "error parsing regexp: ")}
		}
	}
	o.query.Attempt = c.Int("attempt")
	o.query.Latest = o.query.Attempt == 0
	if o.tail >= 0 && o.grep == nil && o.stream == 0 {
		o.query.Lines = max(o.tail, 1) // with other options, the lines are found by reading all of them
	}
	return nil
}

// logSink receives the chunks of a log in order.
type logSink interface {
	add(c *queue.Chunk) error
	live() error // all stored chunks were added; the next ones come as tasks write them
	idle() error // no further chunk is there at the moment
	end() error
}

// showLogs prints the stored logs. With --follow it then prints what tasks write until the run is over, and returns the error of a
// run that did not succeed. Without --follow it also says if nothing was written, and which task has logs of earlier attempts. It
// returns a notFound failure for an item or an attempt that does not exist.
func (e *env) showLogs(ctx context.Context, store *queue.Store, o *logsOptions) error {
	reader := store.OpenLogs(o.query)
	sink := e.newLogSink(o, reader)
	seen := false
	var tries earlierTries
	for c, err := range reader.Stored(ctx) {
		if err == nil {
			seen, err = true, sink.add(&c)
			tries.add(&c)
		}
		if err != nil {
			return err
		}
	}
	if err := sink.live(); err != nil {
		return err
	}
	if o.follow {
		return e.followLogs(ctx, store, reader, sink)
	}
	if !seen {
		if err := hasItem(ctx, store, o); err != nil {
			return err
		}
		if err := hasAttempt(ctx, store, o); err != nil {
			return err
		}
		e.remark("run %d: nothing was written%s", o.query.Run, yet(reader))
	}
	if err := sink.end(); err != nil {
		return err
	}
	if text := tries.text(o.query.Run); text != "" && o.query.Latest && !o.raw {
		e.remark("%s", e.stderrPaint().Dim(text))
	}
	return nil
}

// earlierTries counts the tasks of a printed log that had attempts before the printed one.
type earlierTries struct {
	task    string // the first such task
	attempt int
	seen    map[string]bool
}

func (t *earlierTries) add(c *queue.Chunk) {
	if c.Attempt < 2 {
		return
	}
	name := runview.TaskName(c.Step, c.Task.Item)
	if t.seen == nil {
		t.task, t.attempt, t.seen = name, c.Attempt, map[string]bool{}
	}
	t.seen[name] = true
}

// text returns a sentence about how to read the logs of earlier attempts, or "" if no task had any.
func (t *earlierTries) text(run queue.RunID) string {
	if t.seen == nil {
		return ""
	}
	text := fmt.Sprintf("%s: this was attempt %d; to read an earlier attempt: %s logs %d %s --attempt 1", runview.InlineText(t.task), t.attempt, program, run, runview.ShellWord(t.task))
	if more := len(t.seen) - 1; more > 0 {
		text += fmt.Sprintf(" (%s more had several attempts)", runview.Count(more, "task"))
	}
	return text
}

// hasItem returns a notFound failure if the step of the query does not have its item, and nil for a query without an item. It looks
// through all tasks, so it is called only for an item without a log, which is rare.
func hasItem(ctx context.Context, store *queue.Store, o *logsOptions) error {
	if o.query.Item == "" {
		return nil
	}
	tasks, err := store.Tasks(ctx, o.query.Run)
	if err != nil || slices.ContainsFunc(tasks, func(t queue.Task) bool { return t.Step == o.query.Step && t.Item == o.query.Item }) {
		return err
	}
	return &failure{
		kind: notFound, err: fmt.Errorf("run %d has no %s", o.query.Run, runview.Printable(runview.TaskName(o.query.Step, o.query.Item))),
		hint: fmt.Sprintf("`%s status %d` shows the items of the step", program, o.query.Run),
	}
}

// hasAttempt returns a notFound failure if none of the selected tasks has had the attempt of --attempt, and nil without that flag.
func hasAttempt(ctx context.Context, store *queue.Store, o *logsOptions) error {
	if o.query.Attempt == 0 {
		return nil
	}
	tasks, err := store.Tasks(ctx, o.query.Run)
	if err != nil {
		return err
	}
	latest := 0
	for i := range tasks {
		t := &tasks[i]
		switch {
		case o.query.Step == "", t.Step == o.query.Step && t.Item == o.query.Item, o.query.Whole && runview.StepOf(t.Step) == o.query.Step:
			latest = max(latest, t.Attempt)
		}
	}
	if o.query.Attempt <= latest {
		return nil
	}
	what := fmt.Sprintf("run %d", o.query.Run)
	if o.query.Step != "" {
		what += " " + runview.Printable(runview.TaskName(o.query.Step, o.query.Item))
	}
	hint := "there are attempts 1 to " + decimal(int64(latest))
	if latest == 0 {
		hint = "no attempt has begun: `" + program + " status " + decimal(int64(o.query.Run)) + "` shows the reason for the wait"
	}
	return &failure{kind: notFound, err: fmt.Errorf("%s has no attempt %d", what, o.query.Attempt), hint: hint}
}

func yet(reader *queue.LogReader) string {
	if reader.Over() {
		return ""
	}
	return " yet"
}

// followLogs prints new chunks until the run ends, or until the attempt of --attempt ends. It returns the error of a run that did
// not succeed.
func (e *env) followLogs(ctx context.Context, store *queue.Store, reader *queue.LogReader, sink logSink) error {
	var idle error
	for c, err := range reader.Follow(ctx, func() { idle = sink.idle() }) {
		if err == nil {
			err = errors.Join(idle, sink.add(&c))
		}
		if err != nil {
			return err
		}
	}
	if err := sink.end(); err != nil || !reader.Over() {
		return err
	}
	run, err := store.Get(ctx, reader.Run())
	if err != nil {
		return err
	}
	if end := runEnd(run); end != nil {
		return end
	}
	return nil
}
