package embed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// register registers the worker, and waits for a database that is not there yet. The first call opens the store. The registration
// replaces the workers in r.dead, which are known to be dead: workers that the guard has cleared away, and former registrations of
// this worker. Then register empties r.dead. An error means that the database refuses, or that the worker is to stop.
func (r *Rig) register(ctx context.Context, self queue.Worker) (worker.Session, error) {
	if err := r.open(ctx); err != nil {
		return worker.Session{}, err
	}
	r.losses.lives(r.status())
	self.Replaces = r.dead
	session, err := untilThere(ctx, r, func(ctx context.Context) (*queue.Session, error) { return r.enter(ctx, self) })
	if err != nil {
		return worker.Session{}, err
	}
	if err := r.config.Link.Forget(texts(r.dead)...); err != nil {
		r.config.Log.Warn("the guard keeps a list of workers that are replaced already", "err", err)
	}
	r.dead = nil
	r.session.Store(session)
	r.sql.Use(session, session.ID())
	r.warnOfQueues(ctx)
	return worker.SessionOf(session), nil
}

// warnOfQueues logs which of the worker's queues do not exist. The name may be misspelt, or the queue may be made later.
func (r *Rig) warnOfQueues(ctx context.Context) {
	if len(r.config.Queues) == 0 {
		return
	}
	missing, err := r.store.MissingQueues(ctx, r.config.Queues)
	if err != nil {
		r.config.Log.Warn("cannot tell whether the queues of this worker exist", "err", err)
		return
	}
	for _, name := range missing {
		r.config.Log.Warn(fmt.Sprintf("no queue %s yet: this worker serves it once a DAG names it or `oarlock queues set %s` makes it", name, name),
			"hint", "`oarlock queues --all` lists the queues")
	}
}

// try returns the error for which the database would not take the worker's records now, or nil.
func (r *Rig) try(ctx context.Context) error { return r.store.TryRecords(ctx) }

// enter registers the worker at the store. A server that was just promoted refuses a worker without a memory of it, until a worker
// that was running during the promotion has connected. enter waits for that, and returns the refusal after vouchPatience. It
// returns any other error at once.
func (r *Rig) enter(ctx context.Context, self queue.Worker) (session *queue.Session, err error) {
	for end := time.Now().Add(vouchPatience); ; {
		if session, err = r.store.Register(ctx, self); !queue.Unvouched(err) || !time.Now().Before(end) {
			return session, err
		}
		pause := time.NewTimer(vouchPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, err
		}
	}
}

const (
	vouchPatience = 5 * time.Second // a running worker tries to connect every second
	vouchPause    = 250 * time.Millisecond
)

// open opens the store if that is not open yet, and waits for a database that is not there yet. The metrics of the queue then read
// from the store.
func (r *Rig) open(ctx context.Context) (err error) {
	if r.store != nil {
		return nil
	}
	c := r.config.Database
	c.Meter = r.losses.meter(r.metrics.Queue())
	if c.Memory == nil {
		c.Memory = &memory{dir: r.config.Memory, log: r.config.Log}
	}
	r.store, err = untilThere(ctx, r, func(ctx context.Context) (*queue.Store, error) { return queue.Open(ctx, c) })
	if err != nil {
		return err
	}
	r.metrics.WatchQueue(func(ctx context.Context) (queue.Scale, error) { return r.store.Scale(ctx, "") })
	r.metrics.WatchPools(func(ctx context.Context) ([]queue.Pool, error) { return r.store.Pools(ctx, "") })
	r.metrics.WatchPrune(r.store.PruneOverdue)
	return nil
}

// untilThere calls ask until it succeeds, until it fails for a reason that does not pass, or until the worker is to stop. It logs
// the outage and shows it in the worker's status. After Stop, a call under way has graceToAsk to end; after StopNow, its context
// ends at once.
func untilThere[T any](ctx context.Context, r *Rig, ask func(context.Context) (T, error)) (T, error) {
	trying, cancel := r.untilStopped(ctx, 0)
	defer cancel()
	asking, cancel := r.untilStopped(ctx, graceToAsk)
	defer cancel()
	var outage worker.Outage
	return backoff.Retry(trying, func() (T, error) {
		answer, err := ask(asking)
		if err == nil {
			outage.Over(r.config.Log, "the database is there")
		}
		if err != nil && !queue.Passing(err) {
			err = backoff.Permanent(err)
		}
		return answer, err
	}, backoff.WithMaxElapsedTime(0), backoff.WithBackOff(patience()), backoff.WithNotify(func(err error, _ time.Duration) {
		msg, awaits := absence(err)
		r.await(awaits)
		outage.Failed(r.config.Log, msg, err)
	}))
}

// absence returns two texts for the error err, for which a worker is not registered: msg for the log, and awaits for the status of
// the worker. awaits is "" if the database does not answer.
func absence(err error) (msg, awaits string) {
	short, isShort := errors.AsType[*queue.ShortError](err)
	switch {
	case isShort && short.Direct:
		return crowdedOut, fmt.Sprintf("waiting for connections of the database: it gives %d of %d", short.Lent, short.Needs)
	case errors.Is(err, queue.ErrWaiting):
		return queue.ErrWaiting.Error(), queue.ErrWaiting.Error()
	case queue.Crowded(err): // there is not even one connection
		return crowdedOut, "waiting for connections of the database: it gives none"
	}
	return "the database is not there yet", ""
}

const crowdedOut = "waiting for connections of the database: nothing is claimed"

const (
	maxWait    = 5 * time.Second // between two tries, plus or minus half: each try may occupy all connections that a pooler has left
	graceToAsk = 5 * time.Second // after a request to stop: a registration given up half-way would leave a row that is never renewed
)

func patience() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 100*time.Millisecond, maxWait
	return b
}

// sweepTimeout bounds the wait for killed processes.
const sweepTimeout = 10 * time.Second

// ended makes sure that nothing of the registration id is left, so that the next one may replace it: it ends the processes of the
// worker, and takes the guard's deadline away. If processes are left after sweepTimeout, it returns an error and the worker fails:
// then the guard ends the processes, or the lease decides. If the session was not closed in order (released is false), ended adds
// id to r.dead, for the next registration.
func (r *Rig) ended(id uuid.UUID, released bool) error {
	r.session.Store(nil)
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	var kept error
	if r.commands != nil {
		kept = r.commands.EndKept()
	}
	if err := errors.Join(kept, r.config.Link.Sweep(ctx)); err != nil {
		return err
	}
	_ = r.config.Link.Extend(0) // fails if the guard is gone: see watchGuard
	if !released {
		r.dead = append(r.dead, id)
		return nil
	}
	_ = r.config.Link.Forget(id.String()) // if it fails, the successor needs one more statement
	return nil
}

// cleared returns the workers of which the guard has ended all processes, and which this process replaces. There are none without a
// guard.
func (r *Rig) cleared() (ids []uuid.UUID) {
	for _, text := range r.config.Link.Replaces() {
		if id, err := uuid.Parse(text); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

func texts(ids []uuid.UUID) []string {
	all := make([]string, len(ids))
	for i, id := range ids {
		all[i] = id.String()
	}
	return all
}
