package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/lmittmann/tint"
	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/internal/pglocal"
)

const program = "oarlock"

// Main runs one command line, args without the program's name, and returns the exit status for the process. The first SIGINT or
// SIGTERM ends the command's context, the second one ends the process.
func Main(e Env, args []string) int {
	ctx, stop := withSignals(context.Background())
	defer stop()
	return run(ctx, e, args)
}

func run(ctx context.Context, outside Env, args []string) int {
	e := &env{Env: outside}
	defer e.leave(context.WithoutCancel(ctx))
	err := e.dispatch(ctx, args)
	if err == nil {
		return int(exitOK)
	}
	if status, ok := errors.AsType[statusError](err); ok {
		return int(status)
	}
	p := e.problemOf(ctx, err)
	if p.kind == usage && p.hint == "" {
		p.hint = see(e.command)
	}
	p.needRole(e.command, err)
	switch {
	case p.exit == exitNotFound:
		p.hint = e.sayPrivate(p.hint)
	case p.code == unreachable.code:
		p.hint = e.sayUnnamed(p.hint)
	}
	e.report(p, args)
	if e.driver && p.exit == exitUsage {
		return int(exitDriverUsage)
	}
	return int(p.exit)
}

// problemOf returns the problem that the program reports for err. If a signal has arrived, the signal is the reason, except for a
// command that a signal only asks to end: such a command has errors of its own.
func (e *env) problemOf(ctx context.Context, err error) problem {
	if e.hearsSignals {
		ctx = context.WithoutCancel(ctx)
	}
	return diagnose(ctx, err)
}

func (e *env) dispatch(ctx context.Context, args []string) error {
	app := newApp(e)
	if len(args) > 0 && args[0] == completeWord {
		return e.printLines(complete(app, args[1:]))
	}
	line, err := arrange(app, args)
	e.command = strings.TrimSpace(app.Name + " " + pathName(line.path))
	if err != nil {
		return err
	}
	if line.help {
		return e.print(helpText(app, line.path))
	}
	if c := line.command(); len(line.args) > 0 {
		c.Subcommands = nil // urfave/cli would take an argument behind "--" for a subcommand
	}
	return app.RunContext(ctx, line.words(app.Name))
}

// newApp declares the commands. It switches off what urfave/cli does by itself about errors, help and versions: urfave/cli
// prints them in its own way, on the wrong stream, and ends the process.
func newApp(e *env) *cli.App {
	app := &cli.App{
		Name:  program,
		Usage: "runs DAGs from your Postgres",
		Commands: []*cli.Command{
			newRunCommand(e),
			newExecCommand(e),
			newDevCommand(e),
			newDAGCommand(e),
			newEnqueueCommand(e),
			newListCommand(e),
			newStatusCommand(e),
			newEventsCommand(e),
			newLogsCommand(e),
			newCancelCommand(e),
			newPauseCommand(e),
			newResumeCommand(e),
			newRetryCommand(e),
			newApprovalsCommand(e),
			newApproveCommand(e),
			newRejectCommand(e),
			newMarkCommand(e),
			newTopCommand(e),
			newWebCommand(e),
			newStatsCommand(e),
			newPruneCommand(e),
			newMigrateCommand(e),
			newWorkerCommand(e),
			newWorkersCommand(e),
			newQueuesCommand(e),
			newPoolsCommand(e),
			newSchedulesCommand(e),
			newBackfillCommand(e),
			newDoctorCommand(e),
			newConfigCommand(e),
			newVersionCommand(e),
			newCompletionCommand(e),
		},
		Flags:                     globalFlags(),
		Before:                    e.load,
		HideHelp:                  true,
		HideVersion:               true,
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              usageErrorOf,
		Reader:                    e.Stdin,
		Writer:                    e.Stdout,
		ErrWriter:                 e.Stderr,
	}
	disableBuiltins(app.Commands)
	return app
}

func disableBuiltins(commands []*cli.Command) {
	for _, c := range commands {
		c.HideHelp = true
		c.OnUsageError = usageErrorOf
		disableBuiltins(c.Subcommands)
	}
}

// Env is everything a command may touch outside its arguments.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Lookup         func(name string) (string, bool) // reads a variable
	Environ        func() []string                  // returns all variables as name=value; nil: there are none to search
	Dir            string                           // working folder, which relative paths start from

	StdinTTY, StdoutTTY, StderrTTY bool

	Columns, Rows int                        // size of standard output's terminal; 0: unknown
	Size          func() (columns, rows int) // returns that size as it is now; nil: it does not change
	StderrColumns int                        // width of standard error's terminal; 0: unknown
}

// SystemEnv is the Env of this process.
func SystemEnv() Env {
	dir, err := os.Getwd()
	if err != nil {
		dir = "." // the working folder was deleted: only relative paths fail
	}
	columns, rows := terminalSize(os.Stdout)
	stderrColumns, _ := terminalSize(os.Stderr)
	return Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Lookup: os.LookupEnv, Environ: os.Environ,
		Dir:      dir,
		StdinTTY: isTerminal(os.Stdin), StdoutTTY: isTerminal(os.Stdout), StderrTTY: isTerminal(os.Stderr),
		Columns: columns, Rows: rows,
		Size:          func() (int, int) { return terminalSize(os.Stdout) },
		StderrColumns: stderrColumns,
	}
}

func terminalSize(f *os.File) (columns, rows int) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}

// isTerminal reports whether f is a terminal. It asks for the window size: unlike the file mode, that distinguishes a terminal from
// /dev/null.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// env is one invocation of the program: its Env, its settings, and its state.
type env struct {
	Env
	command  string // as the user types it: oarlock migrate up
	file     *config.File
	flags    map[string][]string // global flags that the user typed
	settings *config.Config
	log      *slog.Logger

	makesPrivate bool            // the command makes a private server if no database is named
	driver       bool            // this process is a driver, started by a guard
	hearsSignals bool            // a signal is a request to this command, not the reason for its failure
	server       *pglocal.Server // the private server; nil: not in use
	lines        *liveLines      // collects lines while a page is drawn on the terminal; nil: lines are printed at once
}

// signalError is the cause of a context that a signal has ended.
type signalError struct{ interrupt bool }

func (e *signalError) Error() string {
	if e.interrupt {
		return "interrupted"
	}
	return "terminated"
}

// withSignals returns a context that ends at the first SIGINT or SIGTERM, with a *signalError as its cause. The second signal ends
// the process, because no handler is installed any more. The caller must call stop.
func withSignals(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-got:
			signal.Stop(got)
			cancel(&signalError{interrupt: s == os.Interrupt})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(got)
		cancel(nil)
		<-done
	}
}

// newLogger returns a logger to standard error. It writes coloured lines on a terminal and JSON elsewhere, unless the
// settings choose a format.
func newLogger(e *env) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(e.settings.Text("log_level"))); err != nil {
		panic("cli: log_level was checked when the settings were loaded: " + err.Error())
	}
	format := e.settings.Text("log_format")
	if format == "text" || format == "auto" && e.StderrTTY {
		return slog.New(tint.NewTextHandler(e.Stderr, &tint.Options{
			Level: level, TimeFormat: time.TimeOnly, NoColor: !bool(e.stderrPaint().Painter),
		}))
	}
	return slog.New(slog.NewJSONHandler(e.Stderr, &slog.HandlerOptions{Level: level, ReplaceAttr: readableDuration}))
}

// readableDuration returns an attribute with a duration as a text such as 1.033s, since a bare number has no visible unit. It
// returns other attributes unchanged.
func readableDuration(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// exit is the exit status of a process.
type exit int

const (
	exitOK          exit = 0
	exitError       exit = 1
	exitUsage       exit = 2
	exitNotFound    exit = 3
	exitConflict    exit = 4
	exitUnreachable exit = 5
	exitInvalid     exit = 6
	exitRunFailed   exit = 10
	exitRunCanceled exit = 11
	exitTimeout     exit = 124
	exitInterrupt   exit = 130
	exitTerminate   exit = 143

	// exitDriverUsage replaces exitUsage in a driver process. Go exits with 2 after a crash, so a guard would take exitUsage
	// for one.
	exitDriverUsage exit = 64
)

// kind is a class of errors: its code in -o json, and its exit status.
type kind struct {
	code string
	exit exit
}

// The kinds of errors. Codes are a contract: they may be added, never renamed.
var (
	general       = kind{"error", exitError}
	checkFailed   = kind{"check_failed", exitError}
	denied        = kind{"permission_denied", exitError}
	noPostgres    = kind{"postgres_missing", exitError}
	usage         = kind{"usage", exitUsage}
	notFound      = kind{"not_found", exitNotFound}
	conflict      = kind{"conflict", exitConflict}
	unreachable   = kind{"unreachable", exitUnreachable}
	authFailed    = kind{"auth_failed", exitUnreachable}
	readOnly      = kind{"read_only", exitUnreachable}
	serverVersion = kind{"server_version", exitUnreachable}
	schemaVersion = kind{"schema_version", exitUnreachable}
	mayBeCopy     = kind{"may_be_copy", exitUnreachable}
	invalid       = kind{"validation", exitInvalid}
	runFailed     = kind{"run_failed", exitRunFailed}
	runCanceled   = kind{"run_canceled", exitRunCanceled}
	timedOut      = kind{"timeout", exitTimeout}
	interrupted   = kind{"interrupted", exitInterrupt}
	terminated    = kind{"terminated", exitTerminate}
)

// failure is an error with a kind that the command has decided.
type failure struct {
	kind kind
	err  error
	hint string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }
func (f *failure) Hint() string  { return f.hint }

// statusError ends the program with an exit status and prints nothing, since the error was printed before.
type statusError int

func (s statusError) Error() string { return "exit status " + decimal(int64(s)) }
