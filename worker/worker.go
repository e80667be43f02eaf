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

// Config says what a worker is and does. Register, Slots, Executors and Logs are required.
type Config struct {
	Register func(ctx context.Context, w queue.Worker) (Session, error)
	Cancel   func(ctx context.Context, run queue.RunID, now bool) error // of a child run

	Self  queue.Worker // Name, Host, Queues, Labels, TTL …; ID, Slots and Offers are filled in
	Slots int

	Executors map[string]Executor                          // by what they execute: process, action:http.request, …
	Offers    []string                                     // what else it offers, in the words of dagspec.Spec.Needs
	Prober    Prober                                       // of waits that ask; nil: none
	Logs      func(sink Writer, now func() time.Time) Logs // of one life of the worker, with the time of the database
	Env       func(name string) (string, bool)             // the inherited environment, filtered; nil: nothing
	Secrets   SecretPolicy

	// LocalFiles says that DAGs are put from files of this host: tasks learn their folder, where the file is there.
	LocalFiles bool
	Source     string // of the run that Self.Only names: the file it was made of; "": where its DAG was put from last

	// Trial starts a body that does nothing, the way bodies start. A worker whose host could not start one claims nothing until a
	// trial passes. nil: opening some descriptors is enough.
	Trial func(ctx context.Context) error

	DrainTimeout time.Duration // how long running tasks may take once the worker is to stop; 0: DefaultDrain
	Guard        LeaseSink     // nil: nobody outside watches
	Log          *slog.Logger  // nil: silent
	Meter        Meter         // nil: nothing is counted

	// Boot is the clock of Session.Deadline, nil for the time since boot. A test that tells a history again has its own,
	// and wants Even: pauses between tries that chance does not stretch.
	Boot func() time.Duration
	Even bool

	// Try says why the database would not take records now. A worker that gave its runs up begins anew once that is nil. nil: nobody
	// is asked.
	Try func(ctx context.Context) error

	// Overdue is told how many bodies run although the lease is over. nil: whoever watches from outside sees to it.
	Overdue func(bodies int)

	// Ended is told that nothing runs any more of the life under this id; released says that it holds nothing either.
	// An error of it is the end of the worker. nil: nobody wants to know.
	Ended func(worker uuid.UUID, released bool) error
}

// DefaultDrain is the DrainTimeout of a Config that names none.
const DefaultDrain = time.Minute

// LeaseSink is told until when a worker may live: the guard, which kills what outlives it.
type LeaseSink interface {
	Use(worker string) error       // before anything is registered under this id
	Extend(deadline time.Duration) // by the time since boot
}

// Worker claims runs and drives them until it is stopped. One life of it is one registration: when its lease is lost,
// everything it runs is ended, and it begins anew under another id. The worker holds what goes on from life to life.
type Worker struct {
	stopper

	config    Config
	secrets   *secretReader
	view      view
	gate      *Gate
	claimer   claimer
	lookout   lookout
	sharer    sharer
	ends      rate      // of bodies
	tells     allowance // of notes about what tasks wait for
	renewNow  signal    // a sign of life is due at once
	unrenewed Outage    // of signs of life; keepLease's alone
	records   records
	reads     reads                       // what is known of reads of runs that fail
	fitness   fitness                     // why nothing is to be claimed now
	host      host                        // whether this host starts tasks
	lives     *backoff.ExponentialBackOff // between lives that were lost soon; Run's alone
}

// life is a worker under one registration, with what begins and ends with that. What is late of one life, such as a driver or a
// body, knows nothing of the next one.
type life struct {
	*Worker

	id        uuid.UUID
	idText    string
	log       *slog.Logger
	executors map[string]Executor
	session   Session
	clock     *clock
	fleet     *fleet
	logs      Logs
	appends   appends                 // what is known of appends to logs
	ctx       context.Context         //nolint:containedctx // of this life, which is shorter than the worker
	stop      context.CancelCauseFunc // of this life: everything ends at once
	warned    int                     // how far the time without a sign of life has got; keepLease's alone
	tooLong   chan error              // holds why the runs are to be given up, once they are
	handedOn  atomic.Int64            // runs that are left to others because the worker stops
}

// stopper is how a worker is told to stop: once, or once more and at once.
type stopper struct {
	drain   chan struct{} // closed: claim nothing more, let run what runs
	drained sync.Once
	hurry   chan struct{} // closed: stop at once
	hurried sync.Once
}

// errStopped is why the context of a worker's life ends in order.
var errStopped = errors.New("the worker stops")

// New makes a worker; Run runs it.
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
		config:  c, secrets: newSecretReader(c.Secrets), gate: NewGate(c.Slots),
		claimer: newClaimer(), lookout: newLookout(), sharer: newSharer(), renewNow: newSignal(),
	}
	w.host.failed = make(chan struct{}, 1)
	w.gate.tell = gateListener{freed: w.freed, crowded: w.claimer.ranked.send, asking: w.claimer.asks.send}
	w.fitness.mended, w.fitness.changed = w.claimer.wakeup.send, w.renewSoon
	w.records.pauses, w.lives = w.trialPauses(), w.lifePauses()
	w.view.status = Status{
		Phase: Starting, Since: time.Now(), Containment: c.Self.Containment, TTL: c.Self.TTL, RenewEvery: heartbeatOf(c.Self.TTL),
	}
	return w, nil
}

// offered are what a worker does by itself, without an executor.
var offered = []string{
	"action:noop", "action:wait", "action:approval", "action:dag.run", "publish", "cache", "secrets:env", "secrets:file",
}

// Stop has the worker claim nothing more, let run what runs for a while, and hand on the rest. Run returns when that is
// done.
func (w *Worker) Stop() { w.drained.Do(func() { close(w.drain) }) }

// StopNow is Stop without the while.
func (w *Worker) StopNow() {
	w.Stop()
	w.hurried.Do(func() { close(w.hurry) })
}

// Run works until Stop, or until ctx ends, which is as StopNow. An error is about starting, or of Ended: once it has
// started, a worker outlives whatever happens to its database.
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

// Pauses before a life that follows one which was lost before its lease could end by itself. What ends one at once may end the next
// as soon, and each leaves a row.
const (
	firstLifePause   = 100 * time.Millisecond
	longestLifePause = 30 * time.Second
)

// lifePauses grow from one short life to the next.
func (w *Worker) lifePauses() *backoff.ExponentialBackOff {
	pauses := w.pauses()
	pauses.InitialInterval, pauses.MaxInterval, pauses.Multiplier = firstLifePause, longestLifePause, 2
	pauses.Reset()
	return pauses
}

// untilNextLife pauses after a life that began then and was lost soon. It says whether the worker is to begin anew.
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

// newLife is one that is not registered yet.
func (w *Worker) newLife() *life {
	id := uuid.New()
	l := &life{
		Worker: w, id: id, idText: id.String(), log: w.config.Log.With("worker", id), executors: maps.Clone(w.config.Executors),
		clock: &clock{boot: w.config.Boot}, fleet: newFleet(), tooLong: make(chan error, 1),
	}
	l.executors["action:dag.enqueue"] = enqueuer{l}
	return l
}

// live is one registration, from Register to Close. It says why the lease was lost, if it was.
func (l *life) live(ctx context.Context) (lost, err error) {
	switch err := l.register(ctx); {
	case queue.Passing(err) || errors.Is(err, queue.ErrLeaseLost):
		return err, nil // it was registered, but not heard of again in time
	case err != nil:
		return nil, err
	}
	l.ctx, l.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	defer l.stop(errStopped)
	var helpers sync.WaitGroup
	helpers.Go(l.keepLease)
	helpers.Go(l.listen)
	helpers.Go(l.claim)
	helpers.Go(l.lookAround)
	helpers.Go(l.doChores)
	helpers.Go(l.sweep)
	helpers.Go(l.attend)
	helpers.Go(l.share)
	helpers.Go(l.keepRecords)
	helpers.Go(l.watchHost)
	lost, left := l.seeOut()
	l.view.enter(Ending)
	l.stop(errStopped)
	if left == nil {
		err = l.windUp(&helpers)
	}
	released := !errors.Is(lost, queue.ErrLeaseLost) && left == nil && err == nil
	if lost != nil {
		err = nil // what could not be closed others find out about
	}
	if l.config.Ended != nil {
		err = errors.Join(err, l.config.Ended(l.id, released))
	}
	return lost, errors.Join(left, err)
}

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
	l.config.Self.Replaces = nil // they are, by now
	renewal, asked, err := l.firstRenewal(ctx)
	if err != nil {
		return errors.Join(err, l.closeSession())
	}
	l.claimer.unpolled = Outage{}
	l.fitness.clear(unfitPolls)
	l.lookout.shared.Store(nil)
	l.gate.Open()
	l.extend() // before anything is claimed: nobody would end its tasks otherwise until the next renewal
	l.clock.set(renewal.Now, asked)
	l.view.registered(l, asked)
	l.logs = l.config.Logs(noted{l.session, &l.appends}, func() time.Time { return at(l.clock.now()) })
	l.log.Info("ready to claim runs", "name", self.Name, "slots", self.Slots, "containment", self.Containment, "database", l.session.Database)
	return nil
}

// firstRenewal brings the time of the database. One that does not answer is asked again until the lease is over.
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

// extend tells the guard how long the lease holds.
func (l *life) extend() {
	if l.config.Guard != nil {
		_, hard := l.session.Deadline()
		l.config.Guard.Extend(hard)
	}
}

// offers is what the worker can execute.
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

// Phase is what a worker is at.
type Phase string

// Phases. When its lease is lost a worker goes from Ending to Starting again.
const (
	Starting Phase = "starting" // not registered (any more)
	Live     Phase = "live"
	Draining Phase = "draining" // it claims nothing more, what it runs goes on
	Ending   Phase = "ending"   // everything it runs has been told to end
	Stopped  Phase = "stopped"
)

// Status is a worker at one moment.
type Status struct {
	Phase       Phase
	Since       time.Time // when it came to that, but for Draining, which is Live from before
	Worker      uuid.UUID // of this registration, or of the last one
	Containment string

	TTL        time.Duration
	RenewEvery time.Duration
	Ticked     time.Time     // when the keeper of the lease last came round: every RenewEvery while Live and Draining
	Soft, Hard time.Duration // until when the lease holds, by the time since boot: see queue.Session.Deadline
	Renewed    time.Duration // when the last sign of life that was answered was sent, by the time since boot
	RenewErr   error         // of the last sign of life; nil: it was taken
	Refusal    string        // what the database answered to it in place of that; "": nothing

	Awaits        string        // what it waits for before it can register, for people; "": nothing that it knows of
	Registrations int           // so far
	Losses        int           // of its lease, so far
	GivenUp       int           // lives that ended because the database took no records or let no runs be read
	Unfit         []string      // why it claims nothing now, for people, the oldest reason first
	UnfitFor      []string      // the same as words of UnfitCauses
	Unwritten     time.Duration // how long the database has taken no records; 0: it takes them
	Unlogged      time.Duration // the same of logs
	Runs          int           // under way here
	Stalled       []queue.RunID // of these, those that can do nothing until they get a slot
	Gate          GateStats
	Session       queue.SessionStats
}

// view is what Status needs to see of a worker's life, whoever asks.
type view struct {
	mu     sync.Mutex
	status Status
	life   *life // the last that was registered; nil: none yet
}

// Status shows the worker at this moment. It waits for nobody: what it says of the database is what the worker knows.
func (w *Worker) Status() Status {
	w.view.mu.Lock()
	s, l := w.view.status, w.view.life
	w.view.mu.Unlock()
	s.Gate, s.Unfit, s.UnfitFor = w.gate.Stats(), w.fitness.texts(), w.unfitFor()
	s.Unwritten = w.unwrittenFor()
	if l != nil {
		s.Unlogged = l.appends.failingFor()
		s.Soft, s.Hard = l.session.Deadline()
		var idle stalls
		s.Runs, idle = l.fleet.look()
		s.Session, s.Stalled = l.session.Stats(), idle.runs()
	}
	if s.Phase == Live && w.stopping() {
		s.Phase = Draining
	}
	return s
}

// Await has the status say what the worker waits for before it can register; "": it does not know. It is for Config.Register.
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

// registered begins a life, whose first renewal was sent at asked.
func (v *view) registered(l *life, asked time.Duration) {
	v.enter(Live)
	v.change(func(s *Status) {
		v.life = l
		s.Worker, s.Ticked, s.Renewed, s.RenewErr, s.Refusal, s.Awaits = l.id, time.Now(), asked, nil, "", ""
		s.Registrations++
	})
}

func (v *view) ticked() { v.change(func(s *Status) { s.Ticked = time.Now() }) }

// renewed takes in what came of the sign of life that was sent at asked.
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

// take takes the token, and reports whether there was one.
func (s signal) take() bool {
	select {
	case <-s:
		return true
	default:
		return false
	}
}
