package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/urfave/cli/v2"
)

const program = "oarlock"

// Main runs one command line, without the program's name, and returns its exit code.
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

// problemOf reports an arrived signal as the reason of an error. A command that a signal only asks to end has errors of its
// own, so for such a command it diagnoses err.
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
	tame(app.Commands)
	return app
}

func tame(commands []*cli.Command) {
	for _, c := range commands {
		c.HideHelp = true
		c.OnUsageError = usageErrorOf
		tame(c.Subcommands)
	}
}
