package cli

import (
	"context"
	"errors"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker/embed"
	"github.com/oarlock-dev/oarlock/worker/notify"
	"github.com/oarlock-dev/oarlock/worker/supervise"
)

func newWorkerCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "worker",
		Usage: "claim runs and execute their tasks until told to stop",
		Flags: append(
			keyFlags(workerKeys()),
			&cli.StringFlag{Name: "only", Usage: "serve only this `RUN` or @latest, and the children it waits for, in any queue, and end with it"},
			&cli.StringFlag{Name: "source", Usage: "with --only: the run was made of this `FILE`, whose folder is OARLOCK_SOURCE_DIR"},
			&cli.BoolFlag{Name: "until-eof", Usage: "stop when standard input ends; with --only, cancel the run then"},
		),
		Description: manual{
			about: `Starts a guard, and as its child the process that works. The guard ends what outlives that one, and starts
another when it dies. The first TERM or INT stops claiming and lets running tasks finish for --drain-timeout; what is
not done then is handed to other workers. The second stops at once. All settings of a worker may stand in the settings
file; see docs/worker.md.`,
			examples: []string{
				"oarlock worker",
				"oarlock worker --slots 32 --queue etl --queue reports --label gpu=true",
				"oarlock worker --name big-1 --drain-timeout 10m",
				"oarlock worker --only 41",
				"oarlock retry @latest && oarlock worker --only @latest",
			},
			exits: []exitNote{
				{exitOK, "it was told to stop, and did"},
				{exitError, "it could not work, it could not end in order, or its guard was killed"},
				usageNote,
				{exitNotFound, "--only: there is no such run"},
				{exitUnreachable, "the database refuses it: its schema, the role, or the password. One that is away is waited for"},
				settingsNote,
				{exitTerminate, "TERM before it began to work"},
			},
		}.String(),
		Action: func(c *cli.Context) error { return runWorker(c, e) },
	}
}

func runWorker(c *cli.Context, e *env) error {
	link, guarded := supervise.Attach()
	e.driver = guarded
	if err := e.loadKeys(c, workerKeys()); err != nil {
		return err
	}
	if !guarded { // otherwise the guard has warned already
		e.warnOfSettings()
	}
	if e.unnamed() && !c.IsSet("only") {
		return &failure{kind: invalid, err: errors.New("no database is named"), hint: "set DATABASE_URL; `--database-url private` is this user's own, which `oarlock run FILE` or `oarlock dev` makes"}
	}
	config, err := e.rigConfig(c.Context)
	if err != nil {
		return err
	}
	own := ownership{untilEOF: c.Bool("until-eof")}
	if err := own.apply(c, e, &config); err != nil {
		return err
	}
	e.hearsSignals = true
	if !guarded {
		ctx, stop := own.guarding(context.WithoutCancel(c.Context), e.Stdin) // the guard handles signals itself
		defer stop()
		return e.guardWorker(ctx, config, own.named(os.Args))
	}
	config.Link = link
	if config.Commands != nil {
		config.Commands.Cgroup = link.Cgroup()
	}
	return e.work(c.Context, config, own)
}

// finalExits are the exit statuses of a driver process that another start would not change.
var finalExits = []int{int(exitDriverUsage), int(exitNotFound), int(exitUnreachable), int(exitInvalid)}

// guardWorker starts this program again with args as the driver process, and watches it.
func (e *env) guardWorker(ctx context.Context, config embed.Config, args []string) error {
	state, err := e.stateDir()
	if err != nil {
		return err
	}
	waits := &standby{listen: config.Listen, systemd: notify.FromEnv().Socket, log: e.log}
	defer waits.end()
	who := guarded{config.Name, state}
	code, err := supervise.Run(ctx, supervise.Config{
		Name: config.Name, StateDir: state, Args: args, Final: finalExits, Say: func(event supervise.Event) {
			e.sayGuard(who, event)
			switch event.Kind { //nolint:exhaustive // no other event is about waiting
			case supervise.Waiting:
				waits.begin(who.sentence(event))
			case supervise.Freed:
				waits.end()
				waits.tell("STATUS=starting")
			}
		},
	})
	if err != nil {
		return err
	}
	switch code {
	case 0:
		return nil
	case int(exitDriverUsage):
		code = int(exitUsage)
	}
	return statusError(code) // the driver process has printed why
}

// work is the main function of the driver process.
func (e *env) work(ctx context.Context, config embed.Config, own ownership) error {
	embed.Roomy()
	r, err := embed.New(config)
	if err != nil {
		return &failure{kind: invalid, err: err, hint: see(e.command)}
	}
	watch, err := own.watch(context.WithoutCancel(ctx), config, r.Stop)
	if err != nil {
		return err
	}
	got := make(chan os.Signal, 2)
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM)
	over := make(chan struct{})
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		e.hearSignals(watch.stopper(e, r), got, over)
	}()
	err = r.Run(context.WithoutCancel(ctx)) // hearSignals handles signals: at the first one, running tasks may finish
	close(over)
	<-heard
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM) // the process ends now; a late signal would turn success into failure
	return e.endOf(errors.Join(err, watch.end()))
}

// unfitLogin is the kind of error of a worker that ends because its database login lacks the role for workers.
var unfitLogin = kind{denied.code, exitUnreachable}

// endOf adds to the error of a worker what the user should do.
func (e *env) endOf(err error) error {
	if refusal, ok := errors.AsType[*queue.Error](err); ok && refusal.Code == "42501" {
		return &failure{kind: unfitLogin, err: errors.New(refusal.Message), hint: refusal.Hint}
	}
	if errors.Is(err, supervise.ErrGone) {
		return &failure{kind: general, err: err, hint: "start the worker again"}
	}
	if at, ok := errors.AsType[*net.OpError](err); ok && at.Op == "listen" {
		return e.refuse("listen", err, "set --listen, or listen in the settings file, or end what listens there")
	}
	return err
}

// hearSignals calls the first function of stop at the first signal, and the last one at each further signal, until over is
// closed.
func (e *env) hearSignals(stop []func(), got <-chan os.Signal, over <-chan struct{}) {
	for {
		select {
		case <-got:
			stop[0]()
			stop = stop[len(stop)-1:]
		case <-over:
			return
		}
	}
}
