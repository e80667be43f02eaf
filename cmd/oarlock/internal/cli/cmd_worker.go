package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/embed"
	"github.com/oarlock-dev/oarlock/worker/health"
	"github.com/oarlock-dev/oarlock/worker/notify"
	"github.com/oarlock-dev/oarlock/worker/supervise"
)

func newWorkerCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "worker",
		Usage: "claim runs and execute their tasks until the worker is told to stop",
		Flags: append(
			keyFlags(workerKeys()),
			&cli.StringFlag{Name: "only", Usage: "serve only this `RUN` (or @latest) and the child runs that it waits for; stop when that run ends"},
			&cli.StringFlag{Name: "source", Usage: "with --only: the `FILE` of the run; tasks find the folder of the file in OARLOCK_SOURCE_DIR"},
			&cli.BoolFlag{Name: "until-eof", Usage: "stop when standard input ends; with --only, cancel the run at that moment"},
		),
		Description: manual{
			about: `Starts a guard, and the driver process as its child. The guard kills every process that outlives the driver process.
If the driver process dies, the guard starts another one. The first TERM or INT stops claiming and lets running tasks
finish for --drain-timeout; then the worker hands unfinished runs to other workers. The second TERM or INT stops the
worker at once. All settings of a worker may stand in the settings file: see docs/worker.md.`,
			examples: []string{
				"oarlock worker",
				"oarlock worker --slots 32 --queue etl --queue reports --label gpu=true",
				"oarlock worker --name big-1 --drain-timeout 10m",
				"oarlock worker --only 41",
				"oarlock retry @latest && oarlock worker --only @latest",
			},
			exits: []exitNote{
				{exitOK, "the worker stopped in order, by a signal or a drain"},
				{exitError, "the worker could not work, could not end in order, or its guard was killed"},
				usageNote,
				{exitNotFound, "--only: the run does not exist"},
				{exitUnreachable, "the database refuses the worker: schema, role or password. The worker waits for a database that is away"},
				settingsNote,
				{exitTerminate, "TERM came before the worker began"},
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
		return &failure{kind: invalid, err: errors.New("no database is named"), hint: "set DATABASE_URL; or give `--database-url private` for the database that `oarlock run FILE` or `oarlock dev` made"}
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
		config.Commands.Adopts = true // this process starts nothing but what tasks need
		config.Commands.Cgroup = link.Cgroup()
	}
	return e.work(c.Context, config, own)
}

// finalExits are the exit statuses of a driver process that another start would not change.
var finalExits = []int{int(exitDriverUsage), int(exitNotFound), int(exitUnreachable), int(exitInvalid)}

// guardWorker starts this program again with args as the driver process, and watches it until the worker ends. It starts another
// driver process after a crash. It returns nil if the worker stopped in order.
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

// work runs the worker in the driver process until it ends. The first signal lets running tasks finish, the second one stops the
// worker at once. A late signal, once the worker has ended, is ignored.
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

// endOf returns the error of a worker. If it knows advice for that error, it adds it as a hint. It returns nil for nil.
func (e *env) endOf(err error) error {
	if refusal, ok := errors.AsType[*queue.Error](err); ok && refusal.Code == "42501" {
		return &failure{kind: unfitLogin, err: errors.New(refusal.Message), hint: refusal.Hint}
	}
	if errors.Is(err, supervise.ErrGone) {
		return &failure{kind: general, err: err, hint: "start the worker again"}
	}
	if at, ok := errors.AsType[*net.OpError](err); ok && at.Op == "listen" {
		return e.refuse("listen", err, "end the program that listens at this address, or name another address with --listen or listen in the settings file")
	}
	return err
}

// hearSignals calls the first function of stop at the first signal, and the last one at each further signal. It returns once over
// is closed.
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

// lastWord bounds how long an ending command tries to cancel its run.
const lastWord = 5 * time.Second

// ownership limits a worker to one run, to the life of another process, or to both.
type ownership struct {
	run      queue.RunID // the only run that it serves; 0: any run that it may claim
	untilEOF bool        // the worker belongs to the process that holds its standard input open
}

func (o *ownership) apply(c *cli.Context, e *env, config *embed.Config) error {
	source := c.String("source")
	switch {
	case c.IsSet("only"):
		arg, err := parseRun(c.String("only"))
		if err != nil {
			return err
		}
		if o.run, err = e.findRun(c.Context, arg); err != nil {
			return err
		}
	case source != "":
		return &usageError{msg: "--source names the file of the run of --only, but --only is missing", hint: "add --only RUN, or leave out --source"}
	}
	if source != "" {
		config.Source = e.absolute(source)
	}
	config.Only = o.run
	if o.untilEOF {
		config.Listen = "" // another worker uses the address of the settings
	}
	return nil
}

// findRun returns the number of the run that arg names. It asks the database only for @latest.
func (e *env) findRun(ctx context.Context, arg runArg) (id queue.RunID, err error) {
	if !arg.latest {
		return arg.id, nil
	}
	err = e.withStore(ctx, func(store *queue.Store) (err error) {
		id, err = arg.find(ctx, store)
		return err
	})
	return id, err
}

// named returns the arguments of this program with @latest replaced by the number of the run, since @latest may name
// another run later.
func (o *ownership) named(args []string) []string {
	named := slices.Clone(args)
	for i, arg := range named {
		if head, ok := strings.CutSuffix(arg, latestWord); ok && (head == "" || strings.HasSuffix(head, "=")) {
			named[i] = head + decimal(int64(o.run))
		}
	}
	return named
}

// guarding returns a context for a guard. With --until-eof it also ends when standard input ends; the goroutine that reads standard
// input ends then, or with the process.
func (o ownership) guarding(ctx context.Context, stdin io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if o.untilEOF {
		go func() {
			_, _ = io.Copy(io.Discard, stdin)
			cancel()
		}()
	}
	return ctx, cancel
}

// ownWatch watches the only run of a worker. Its methods do little on nil.
type ownWatch struct {
	ownership

	store    *queue.Store
	stop     context.CancelFunc
	watching sync.WaitGroup
	failed   error
	givenUp  atomic.Bool // the run was canceled because its owner ended
}

// watch starts to watch the only run of a worker, and calls stop when the run is over or can no longer be watched. It returns nil
// for a worker of many runs. The caller must call end.
func (o ownership) watch(ctx context.Context, config embed.Config, stop func()) (*ownWatch, error) {
	if o.run == 0 {
		return nil, nil //nolint:nilnil // there is nothing to watch
	}
	store, err := queue.Open(ctx, config.Database)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &ownWatch{ownership: o, store: store, stop: cancel}
	w.watching.Go(func() {
		defer stop()
		for run, err := range store.Watch(ctx, o.run) {
			if err != nil && ctx.Err() == nil {
				w.failed = err
			}
			if err != nil || run.Over() {
				return
			}
		}
	})
	return w, nil
}

// stopper returns one function for the first signal and one for further signals. At the first, running tasks may finish; if the
// worker belongs to another process, the run is canceled instead. At the second, the worker stops at once.
func (w *ownWatch) stopper(e *env, r *embed.Rig) []func() {
	if w == nil || !w.untilEOF {
		return []func(){
			func() {
				e.log.Info("stopping: running tasks may finish; send the signal once more to stop at once")
				r.Stop()
			},
			r.StopNow,
		}
	}
	return []func(){
		func() { w.cancel(); r.Stop() },
		r.StopNow,
	}
}

// cancel asks for a cancel of the run, so that no other worker goes on with it, and makes w.end ask once more.
func (w *ownWatch) cancel() {
	w.givenUp.Store(true)
	w.cancelNow()
}

func (w *ownWatch) cancelNow() { _ = cancelOpen(context.Background(), w.store, w.run) }

// cancelOpen requests a cancel that skips handlers, and waits at most lastWord for the database. It requests nothing if the run is
// over, since such a request would stay in the run's history.
func cancelOpen(ctx context.Context, store *queue.Store, id queue.RunID) error {
	ctx, cancel := context.WithTimeout(ctx, lastWord)
	defer cancel()
	if run, err := store.Get(ctx, id); err == nil && run.Over() {
		return nil
	}
	_, err := store.Control(ctx, queue.Ask{Run: id, Verb: dagrun.VerbCancel, Now: true})
	return err
}

func (w *ownWatch) end() error {
	if w == nil {
		return nil
	}
	w.stop()
	w.watching.Wait()
	if w.givenUp.Load() {
		w.cancelNow() // the worker may have handed the run on before it read the first cancel
	}
	w.store.Close()
	if w.failed != nil {
		return fmt.Errorf("watch run %d: %w", w.run, w.failed)
	}
	return nil
}

// guarded is the worker of a guard's events.
type guarded struct{ name, state string }

// guardSentences describe the events of a guard, by the name of its worker.
var guardSentences = map[supervise.Kind]string{
	supervise.Freed:       "the other worker named %s has ended: this worker goes on",
	supervise.Evicted:     "killed the driver process of worker %s, because its guard is gone",
	supervise.Ignored:     "the list of former processes of worker %s cannot be used: this worker replaces none of these processes",
	supervise.Uncontained: "worker %s has no cgroup of its own: a process that cleared its environment may outlive the worker, but only if guard and driver process are killed at the same moment",
	supervise.Swept:       "no process is left of the former process of worker %s",
	supervise.Started:     "started the driver process of worker %s",
	supervise.Overdue:     "the driver process of worker %s is overdue: the guard kills it and all processes that it started",
	supervise.Blocked:     "processes of worker %s survive SIGKILL: the guard starts no driver process before they are gone",
	supervise.Ended:       "the driver process of worker %s ended: the guard starts another one",
	supervise.Delayed:     "the next driver process of worker %s starts after a pause, because the last driver processes ended early",
	supervise.Unwritten:   "the lock file of worker %s could not be written",
}

// sentence describes an event of the guard to people, with the name of the worker.
func (g guarded) sentence(event supervise.Event) string {
	switch {
	case event.Kind == supervise.Waiting:
		who := ""
		if event.PID != 0 {
			who = fmt.Sprintf(" (pid %d)", event.PID)
		}
		return fmt.Sprintf("another worker named %s runs on this host%s with state_dir %s: this worker waits until the other worker ends; give this worker another --name", g.name, who, g.state)
	case event.Kind == supervise.Ended && event.Last:
		return fmt.Sprintf("the driver process of worker %s ended", g.name)
	}
	return fmt.Sprintf(guardSentences[event.Kind], g.name)
}

// sayGuard logs an event of the guard: usual events at debug level, harmless ones at info level, and trouble as a warning.
func (e *env) sayGuard(g guarded, event supervise.Event) {
	sentence, fields := "guard: "+g.sentence(event), guardFields(event)
	switch event.Kind {
	case supervise.Uncontained, supervise.Freed:
		e.log.Info(sentence, fields...)
	case supervise.Started, supervise.Swept:
		e.log.Debug(sentence, fields...)
	case supervise.Ended:
		if event.Last && (event.Code == 0 || slices.Contains(finalExits, event.Code)) { // the driver process has printed why
			e.log.Debug(sentence, fields...)
			return
		}
		e.log.Warn(sentence, fields...)
	case supervise.Waiting, supervise.Evicted, supervise.Ignored, supervise.Overdue, supervise.Blocked, supervise.Delayed, supervise.Unwritten:
		e.log.Warn(sentence, fields...)
	}
}

// guardFields returns a log field for each field of an event that has a value.
func guardFields(event supervise.Event) (fields []any) {
	add := func(set bool, field slog.Attr) {
		if set {
			fields = append(fields, field)
		}
	}
	add(event.PID != 0, slog.Int("pid", event.PID))
	add(event.Kind == supervise.Ended, slog.Int("code", event.Code))
	add(len(event.Workers) > 0, slog.String("workers", strings.Join(event.Workers, ",")))
	add(len(event.Left) > 0, slog.Any("left", event.Left))
	add(event.Took > 0, slog.Duration("took", event.Took.Round(time.Millisecond)))
	add(event.Wait > 0, slog.Duration("wait", event.Wait.Round(time.Millisecond)))
	switch {
	case event.Err == nil:
	case event.Kind == supervise.Uncontained: // not a failure
		fields = append(fields, slog.String("why", event.Err.Error()))
	default:
		fields = append(fields, slog.String("err", event.Err.Error()))
	}
	return fields
}

// standbyClose bounds how long pending answers delay the driver process, which listens at the same address next.
const standbyClose = 200 * time.Millisecond

// standby answers for a worker while its guard waits for another worker of the same name, since there is no driver process
// yet.
type standby struct {
	listen  string // address of the health checks; "": none
	systemd string // systemd's socket; "": none
	log     *slog.Logger
	server  *health.Server
}

// begin reports to systemd why the worker waits, and listens to report it at /readyz, too. It does not listen if there is no
// address or if another process has it. The caller must call end.
func (s *standby) begin(why string) {
	s.tell("STATUS=starting, " + why)
	if s.listen == "" {
		return
	}
	status := worker.Status{Phase: worker.Starting, Since: time.Now(), Unfit: []string{why}}
	server, err := health.New(health.Config{Addr: s.listen, Status: func() worker.Status { return status }})
	if err != nil {
		s.log.Info("this worker answers no health check while it waits", "err", err) // the other worker may have the address
		return
	}
	s.server = server
}

// end closes the server that begin started, so that its address is free. It does nothing if begin did not listen.
func (s *standby) end() {
	if s.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), standbyClose)
	defer cancel()
	_ = s.server.Close(ctx) // a client that is still connected gets no answer
	s.server = nil
}

func (s *standby) tell(line string) {
	if err := notify.Tell(s.systemd, line); err != nil {
		s.log.Warn("systemd does not get the state of this worker", "err", err)
	}
}
