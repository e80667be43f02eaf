package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/queue"
)

// Config describes a worker. Register, Slots, Executors and Logs are required.
type Config struct {
	Register func(ctx context.Context, w queue.Worker) (Session, error)
	Cancel   func(ctx context.Context, run queue.RunID, now bool) error // of a child run

	Self  queue.Worker // Name, Host, Queues, Labels, TTL …; the worker fills in ID, Slots and Offers
	Slots int

	Executors map[string]Executor                          // by kind of body: process, action:http.request, …
	Offers    []string                                     // further abilities, in the words of dagspec.Spec.Needs
	Prober    Prober                                       // for wait steps with a probe; nil: such steps fail
	Logs      func(sink Writer, now func() time.Time) Logs // makes the logs of one life; now returns the database's time
	Env       func(name string) (string, bool)             // looks up the inherited environment, filtered; nil: it is empty
	Secrets   SecretPolicy

	// LocalFiles reports whether DAGs are put from files of this host. Tasks then learn the folder of their DAG file, if the file
	// exists here.
	LocalFiles bool
	Source     string // the DAG file of the run that Self.Only names; "": the file from which its DAG was put last

	// Trial starts an empty body in the same way as the bodies of tasks. After a body could not start, the worker claims nothing
	// until Trial returns nil. nil: OpenSome.
	Trial func(ctx context.Context) error

	DrainTimeout time.Duration // for running tasks once the worker is to stop; 0: DefaultDrain
	Guard        LeaseSink     // nil: the worker runs without a guard
	Log          *slog.Logger  // nil: silent
	Meter        Meter         // nil: nothing is counted

	// Boot is the clock of Session.Deadline; nil: the time since boot. A test that replays a history sets a clock of its own. It
	// also sets Even, which takes the random part out of the pauses between tries.
	Boot func() time.Duration
	Even bool

	// Try returns an error if the database would not take records now. A worker that gave its runs up begins a new life once Try
	// returns nil. nil: the worker begins the new life after a pause, without a trial.
	Try func(ctx context.Context) error

	// Overdue is called with the number of bodies that still run when the lease is over. nil: the guard ends these bodies.
	Overdue func(bodies int)

	// Ended is called at the end of each life, with its id. released reports whether the session was closed in order, so that the
	// life holds no claim any more. An error of Ended ends Run. nil: no call is made.
	Ended func(worker uuid.UUID, released bool) error
}

// DefaultDrain is the DrainTimeout of a Config in which it is 0.
const DefaultDrain = time.Minute

// LeaseSink is the worker's side of the guard. The worker reports its deadline to the guard, which kills every process of the
// worker that still runs then.
type LeaseSink interface {
	Use(worker string) error       // called before the worker registers under this id
	Extend(deadline time.Duration) // deadline is in time since boot
}

// Worker claims runs and drives them until it is stopped.
//
// One registration of a worker is called a life. When the lease of a life is lost, the worker ends all tasks of that life and
// registers again, under another id. The fields of Worker are kept from life to life.
type Worker struct {
	stopper

	config      Config
	secrets     *secretReader
	view        view
	slotQueue   *SlotQueue
	permits     *permitQueue
	claimer     claimer
	lookout     lookout
	sharer      sharer
	ends        rate      // bodies that ended lately
	tells       allowance // for notes about what tasks wait for
	renewNow    signal    // the next sign of life is due at once
	unrenewed   Outage    // signs of life that fail; owned by keepLease
	unpermitted Outage    // calls for permits that fail; owned by askForPermits
	records     records
	reads       reads                       // reads of runs that fail
	fitness     fitness                     // reasons to claim nothing now
	host        host                        // whether this host can start tasks
	lives       *backoff.ExponentialBackOff // pauses between lives that were lost soon; owned by Run
}

// life holds the state of one registration of a worker. A driver or loop that ends late keeps the life that it began in, and
// cannot reach the next one.
type life struct {
	*Worker

	id        uuid.UUID
	idText    string
	log       *slog.Logger
	executors map[string]Executor
	session   Session
	clock     *clock
	drivers   *driverSet
	logs      Logs
	appends   appends                 // how appends to logs went lately
	ctx       context.Context         //nolint:containedctx // of this life, which is shorter than the worker
	stop      context.CancelCauseFunc // ends ctx, and so everything of this life at once
	warned    int                     // the last of askBodies, killBodies and forget that was done; 0: none; owned by keepLease
	tooLong   chan error              // carries errUnwritten or errUnread when the worker is to give its runs up
	handedOn  atomic.Int64            // runs left to other workers because this one stops
}

// stopper carries the two requests to stop: in order, and at once.
type stopper struct {
	drain   chan struct{} // closed: the worker claims nothing more and lets running tasks go on
	drained sync.Once
	hurry   chan struct{} // closed: the worker stops at once
	hurried sync.Once
}

// errStopped is the cancellation cause of a life that ends in order.
var errStopped = errors.New("the worker stops")

// New returns a worker that has not started; Run starts it. New returns an error if a required field of c is missing.
func New(c Config) (*Worker, error) {
	if c.Register == nil || c.Logs == nil || c.Slots < 1 || len(c.Executors) == 0 {
		return nil, errors.New("a worker needs Register, Logs, Executors, and a slot or more")
	}
	if c.Self.TTL == 0 {
		c.Self.TTL = queue.DefaultTTL
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = DefaultDrain
	}
	if c.Boot == nil {
		c.Boot = boottime.Now
	}
	if c.Meter == nil {
		c.Meter = silent{}
	}
	if c.Trial == nil {
		c.Trial = OpenSome
	}
	c.Executors = maps.Clone(c.Executors)
	w := &Worker{
		stopper: stopper{drain: make(chan struct{}), hurry: make(chan struct{})},
		config:  c, secrets: newSecretReader(c.Secrets), slotQueue: NewSlotQueue(c.Slots), permits: newPermitQueue(),
		claimer: newClaimer(), lookout: newLookout(), sharer: newSharer(), renewNow: newSignal(),
	}
	w.host.failed = make(chan struct{}, 1)
	w.slotQueue.tell = slotListener{freed: w.freed, crowded: w.claimer.ranked.send, asking: w.claimer.asks.send}
	w.permits.resumed = w.claimer.due.send
	w.fitness.mended, w.fitness.changed = w.claimer.wakeup.send, w.renewSoon
	w.records.pauses, w.lives = w.trialPauses(), w.lifePauses()
	w.view.status = Status{
		Phase: Starting, Since: time.Now(), Containment: c.Self.Containment, TTL: c.Self.TTL, RenewEvery: heartbeatOf(c.Self.TTL),
	}
	return w, nil
}

// offered lists the abilities of every worker that need no executor.
var offered = []string{
	"action:noop", "action:wait", "action:approval", "action:dag.run", "publish", "cache", "secrets:env", "secrets:file",
}

// Stop begins a drain and returns at once. The worker claims nothing more, gives running tasks the DrainTimeout to end, and then
// ends the others and leaves their runs to other workers. Run returns when the drain is over.
func (w *Worker) Stop() { w.drained.Do(func() { close(w.drain) }) }

// StopNow is Stop without the DrainTimeout: running tasks are killed at once, without their grace. It returns at once, too.
func (w *Worker) StopNow() {
	w.Stop()
	w.hurried.Do(func() { close(w.hurry) })
}

// Run runs the worker until Stop or StopNow, and returns when the drain is over; the end of ctx is a StopNow. An error means that
// the worker could not start or stop in order, or comes from Config.Ended. An outage of the database after the start is no error:
// the worker then waits or begins a new life.
func (w *Worker) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, w.StopNow)()
	defer w.view.enter(Stopped)
	w.config.Log.Info(OutagesOf(w.config.Self.TTL).String())
	for {
		began := w.config.Boot()
		l := w.newLife()
		lost, err := l.live(ctx)
		if isGivenUp(lost) {
			w.view.change(func(s *Status) { s.GivenUp++ })
		}
		if lost == nil && err == nil {
			l.log.Info("the worker has stopped", "runs_handed_on", l.handedOn.Load())
		}
		if lost == nil || err != nil || w.stopping() {
			return err
		}
		if isGivenUp(lost) {
			if !w.untilRecorded(ctx, l.log) {
				return nil
			}
			continue
		}
		w.view.change(func(s *Status) { s.Losses++ })
		l.log.Warn("the lease is lost: all its tasks were ended, beginning anew", "err", lost)
		if !w.untilNextLife(began) {
			return nil
		}
	}
}

// Pauses before a new life if the last one was lost within a TTL of its beginning. The same cause may end the next life as soon,
// and each life leaves a row in the database.
const (
	firstLifePause   = 100 * time.Millisecond
	longestLifePause = 30 * time.Second
)

// lifePauses returns pauses that double from one short life to the next.
func (w *Worker) lifePauses() *backoff.ExponentialBackOff {
	pauses := w.pauses()
	pauses.InitialInterval, pauses.MaxInterval, pauses.Multiplier = firstLifePause, longestLifePause, 2
	pauses.Reset()
	return pauses
}

// untilNextLife pauses if the life that began at began, in time since boot, was lost within a TTL. It reports whether the worker is
// to begin a new life; false means that the worker is to stop.
func (w *Worker) untilNextLife(began time.Duration) bool {
	if w.config.Boot()-began >= w.config.Self.TTL {
		w.lives.Reset()
		return true
	}
	w.view.enter(Starting)
	next := time.NewTimer(w.lives.NextBackOff())
	defer next.Stop()
	select {
	case <-w.drain:
		return false
	case <-next.C:
		return true
	}
}

func (s *stopper) stopping() bool {
	select {
	case <-s.drain:
		return true
	default:
		return false
	}
}

// newLife returns a life with an id of its own that is not registered yet; live registers it.
func (w *Worker) newLife() *life {
	id := uuid.New()
	l := &life{
		Worker: w, id: id, idText: id.String(), log: w.config.Log.With("worker", id), executors: maps.Clone(w.config.Executors),
		clock: &clock{boot: w.config.Boot}, drivers: newDriverSet(), tooLong: make(chan error, 1),
	}
	l.executors["action:dag.enqueue"] = enqueuer{l}
	return l
}

// live runs one life, from Register to the end of its session. lost is the reason if the lease was lost or the runs were given up:
// the worker then begins a new life. err ends the worker, for example because killed bodies do not end. Both are nil after a stop
// in order.
func (l *life) live(ctx context.Context) (lost, err error) {
	switch err := l.register(ctx); {
	case queue.Passing(err) || errors.Is(err, queue.ErrLeaseLost):
		return err, nil // registered, but no renewal was answered in time
	case err != nil:
		return nil, err
	}
	l.ctx, l.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	defer l.stop(errStopped)
	var helpers loops
	helpers.start(l.keepLease)
	helpers.start(l.listen)
	helpers.start(l.claim)
	helpers.start(l.lookAround)
	helpers.start(l.doChores)
	helpers.start(l.sweep)
	helpers.start(l.attendAgenda)
	helpers.start(l.askForPermits)
	helpers.start(l.share)
	helpers.start(l.keepRecords)
	helpers.start(l.watchHost)
	lost, left := l.drainAndClose()
	l.view.enter(Ending)
	l.stop(errStopped)
	if left == nil {
		err = l.windUp(&helpers)
	}
	released := !errors.Is(lost, queue.ErrLeaseLost) && left == nil && err == nil
	if lost != nil {
		err = nil // other workers find out by themselves about a session that was not closed
	}
	if l.config.Ended != nil {
		err = errors.Join(err, l.config.Ended(l.id, released))
	}
	return lost, errors.Join(left, err)
}

// loops are the loops of a life that still run.
type loops struct {
	sync.WaitGroup

	left atomic.Int64
}

// start runs a loop in a goroutine, and counts it in l.left until it returns.
func (l *loops) start(loop func()) {
	l.left.Add(1)
	l.Go(func() {
		loop()
		l.left.Add(-1)
	})
}

// register tells the guard the id, registers the worker, and renews the lease once. Then it makes the life ready for claims: it
// opens the slot queue, sets the clock, and starts the logs. After an error the session is closed, if there was one.
func (l *life) register(ctx context.Context) error {
	l.view.enter(Starting)
	if l.config.Guard != nil {
		if err := l.config.Guard.Use(l.idText); err != nil {
			return fmt.Errorf("tell the guard: %w", err)
		}
	}
	self := l.config.Self
	self.ID, self.Slots, self.Offers = l.id, l.config.Slots, l.offers()
	var err error
	if l.session, err = l.config.Register(ctx, self); err != nil {
		return err
	}
	l.config.Self.Replaces = nil // Register has replaced them
	renewal, asked, err := l.firstRenewal(ctx)
	if err != nil {
		return errors.Join(err, l.closeSession())
	}
	l.claimer.unpolled = Outage{}
	l.fitness.clear(unfitPolls)
	l.lookout.shared.Store(nil)
	l.permits.reset()
	l.slotQueue.Open()
	l.extend() // before the first claim: without a deadline the guard would end no task until the next renewal
	l.clock.set(renewal.Now, asked)
	l.view.registered(l, asked)
	l.logs = l.config.Logs(noted{l.session, &l.appends}, func() time.Time { return at(l.clock.now()) })
	l.log.Info("ready to claim runs", "name", self.Name, "slots", self.Slots, "containment", self.Containment, "database", l.session.Database)
	return nil
}

// firstRenewal renews the lease, which returns the time of the database. If the database is away or too busy, it tries again until
// the lease is over, which is ErrLeaseLost, or until the worker is to stop. asked is when the last try was sent, in time since
// boot.
func (l *life) firstRenewal(ctx context.Context) (queue.Renewal, time.Duration, error) {
	_, hard := l.session.Deadline()
	ctx, cancel := context.WithTimeoutCause(ctx, hard-l.config.Boot(), queue.ErrLeaseLost)
	defer cancel()
	asking := make(chan struct{})
	defer close(asking)
	go l.cutOnHurry(asking, cancel)
	var asked time.Duration
	renewal, err := backoff.Retry(ctx, func() (queue.Renewal, error) {
		asked = l.config.Boot()
		renewal, err := l.session.Renew(ctx, l.vitals())
		if err != nil && (!queue.Passing(err) || l.stopping()) {
			err = backoff.Permanent(err)
		}
		return renewal, err
	}, backoff.WithMaxElapsedTime(0), backoff.WithBackOff(l.pauses()))
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return renewal, asked, err
}

// extend reports the hard deadline of the lease to the guard, if there is one.
func (l *life) extend() {
	if l.config.Guard != nil {
		_, hard := l.session.Deadline()
		l.config.Guard.Extend(hard)
	}
}

// offers returns everything that the worker can execute, in the words of dagspec.Spec.Needs: what needs no executor, Config.Offers,
// and a word for each executor.
func (l *life) offers() []string {
	all := slices.Concat(offered, l.config.Offers)
	if len(l.config.Secrets.Command) > 0 {
		all = append(all, "secrets:command")
	}
	for what := range l.executors {
		all = append(all, what)
	}
	return all
}

// Phase is a stage in the life of a worker.
type Phase string

// Phases of a worker. A worker that has lost its lease goes from Ending back to Starting.
const (
	Starting Phase = "starting" // not registered yet, or not registered any more
	Live     Phase = "live"
	Draining Phase = "draining" // claims nothing more; running tasks go on
	Ending   Phase = "ending"   // all running tasks are asked to end or are being killed
	Stopped  Phase = "stopped"
)

// Status describes a worker at one moment.
type Status struct {
	Phase       Phase
	Since       time.Time // when the phase began; in Draining: when Live began
	Worker      uuid.UUID // id of the current life, or of the last one; zero before the first
	Containment string

	TTL        time.Duration
	RenewEvery time.Duration
	Ticked     time.Time     // last round of the loop that keeps the lease; at least one per RenewEvery while Live or Draining
	Soft, Hard time.Duration // deadlines of the lease in time since boot, see queue.Session.Deadline
	Renewed    time.Duration // when the last answered sign of life was sent, in time since boot
	RenewErr   error         // error of the last sign of life; nil: it succeeded
	Refusal    string        // the database's answer if it refused the last sign of life; "": it did not refuse

	Awaits        string        // for people: what the worker waits for before it can register; "": nothing known
	Registrations int           // so far
	Losses        int           // lost leases so far
	GivenUp       int           // lives that ended because the database took no records or let no runs be read
	Unfit         []string      // for people: reasons to claim nothing now, the oldest first
	UnfitFor      []string      // the same reasons as words of UnfitCauses, in the order of UnfitCauses
	Unwritten     time.Duration // how long the database has taken no records; 0: it takes them
	Unlogged      time.Duration // how long the database has taken no logs; 0: it takes them
	Runs          int           // runs that are driven here
	Stalled       []queue.RunID // runs among these that can do nothing until they get a slot
	Slots         SlotStats
	Permits       PermitStats
	Session       queue.SessionStats
}

// view holds the part of Status that the worker writes as it goes. Any goroutine may read it.
type view struct {
	mu     sync.Mutex
	status Status
	life   *life // the last life that was registered; nil: none yet
}

// Status describes the worker at this moment. It sends nothing to the database and so never waits for it.
func (w *Worker) Status() Status {
	w.view.mu.Lock()
	s, l := w.view.status, w.view.life
	w.view.mu.Unlock()
	s.Slots, s.Unfit, s.UnfitFor = w.slotQueue.Stats(), w.fitness.texts(), w.unfitFor()
	s.Permits, s.Unwritten = w.permits.stats(), w.unwrittenFor()
	if l != nil {
		s.Unlogged = l.appends.failingFor()
		s.Soft, s.Hard = l.session.Deadline()
		var idle blockedDrivers
		s.Runs, idle = l.drivers.look()
		s.Session, s.Stalled = l.session.Stats(), idle.runs()
	}
	if s.Phase == Live && w.stopping() {
		s.Phase = Draining
	}
	return s
}

// Await sets Status.Awaits to what, the text for people on what the worker waits for before it can register; "": nothing is known.
// Config.Register calls Await.
func (w *Worker) Await(what string) { w.view.change(func(s *Status) { s.Awaits = what }) }

func (v *view) change(do func(*Status)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	do(&v.status)
}

func (v *view) enter(p Phase) {
	v.change(func(s *Status) {
		if s.Phase != p {
			s.Phase, s.Since = p, time.Now()
		}
	})
}

// registered enters phase Live with a life that was just registered, and counts the registration. asked is when its first renewal
// was sent, in time since boot.
func (v *view) registered(l *life, asked time.Duration) {
	v.enter(Live)
	v.change(func(s *Status) {
		v.life = l
		s.Worker, s.Ticked, s.Renewed, s.RenewErr, s.Refusal, s.Awaits = l.id, time.Now(), asked, nil, "", ""
		s.Registrations++
	})
}

func (v *view) ticked() { v.change(func(s *Status) { s.Ticked = time.Now() }) }

// renewed stores the outcome of the sign of life that was sent at asked, in time since boot; err is nil if it was answered.
func (v *view) renewed(asked time.Duration, err error) {
	v.change(func(s *Status) {
		s.RenewErr, s.Refusal = err, ""
		if err == nil {
			s.Renewed = asked
		}
		if refusal, ok := errors.AsType[*queue.Error](err); ok {
			s.Refusal = fmt.Sprintf("%s (%s)", refusal.Message, refusal.Code)
		}
		if queue.Crowded(err) {
			s.Refusal = "too many connections"
		}
	})
}

// signal wakes a loop. It holds at most one token, so sending never waits.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// take removes the token and reports whether there was one.
func (s signal) take() bool {
	select {
	case <-s:
		return true
	default:
		return false
	}
}
