package pglink_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/internal/pglink"
)

func TestDo_WritesOnceThoughTheReplyToCommitIsLost(t *testing.T) {
	t.Parallel()
	for name, op := range map[string]func(*bundle) func(context.Context) error{
		"pgx":          (*bundle).insertTx,
		"database/sql": (*bundle).insertSQL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			cut := b.proxy.Inject(netfault.Fault{When: netfault.Completed("COMMIT"), Do: netfault.Cut})
			calls := b.do(t, op(b))
			cut.MustFire(t)
			if got := b.rows(t); got != 1 || *calls != 1 {
				t.Errorf("%d rows after %d tries, want 1 after 1", got, *calls)
			}
		})
	}
}

func TestDo_WritesOnceThoughCommitIsLostOnTheWayThere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	commit := func(m netfault.Message) bool {
		return m.From == netfault.Client && m.Type == 'Q' && string(m.Body) == "commit\x00"
	}
	cut := b.proxy.Inject(netfault.Fault{When: commit, Do: netfault.Cut})
	calls := b.do(t, b.insertTx())
	cut.MustFire(t)
	if got := b.rows(t); got != 1 || *calls != 2 {
		t.Errorf("%d rows after %d tries, want 1 after 2", got, *calls)
	}
}

func TestDo_WritesOnceThoughReadingBackFailsTwice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.proxy.Inject(netfault.Fault{When: netfault.Completed("COMMIT"), Do: netfault.Cut})
	b.proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 1"), Do: netfault.Cut})
	again := b.proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 1"), Do: netfault.Cut})
	calls := b.do(t, b.insertTx())
	again.MustFire(t)
	if got := b.rows(t); got != 1 || *calls != 1 {
		t.Errorf("%d rows after %d tries, want 1 after 1", got, *calls)
	}
}

func TestDo_TellsACallerWhoGaveUpWhatHappened(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hold := b.proxy.Inject(netfault.Fault{When: netfault.Completed("COMMIT"), Do: netfault.Hold})
	defer hold.Release()
	go func() { <-hold.Fired(); cancel() }()
	if err := pglink.Do(ctx, b.insertTx(), b.isThere); err != nil {
		t.Errorf("Do: %v, want nil: the row is committed", err)
	}
	if got := b.rows(t); got != 1 {
		t.Errorf("%d rows, want 1", got)
	}
}

// script answers each try of an operation, and each call of verify, with its next line.
type script struct {
	op, verify []error // verify: nil = not done, errDone = done
	tries      int
	readings   int
}

var errDone = errors.New("done")

func (s *script) run(ctx context.Context) error {
	return pglink.Do(ctx, func(context.Context) error {
		s.tries++
		return s.op[min(s.tries, len(s.op))-1]
	}, func(context.Context) (bool, error) {
		s.readings++
		err := s.verify[min(s.readings, len(s.verify))-1]
		if errors.Is(err, errDone) {
			return true, nil
		}
		return false, err
	})
}

func TestDo_DecidesByWhatTheErrorMeans(t *testing.T) {
	t.Parallel()
	state := func(code string) error { return &pgconn.PgError{Code: code} }
	duplicate, plan, deadlock, starting, full := state("23505"), state("0A000"), state("40P01"), state("57P03"), state("53100")
	cases := map[string]struct {
		script          script
		tries, readings int
		want            error
	}{
		"success":                        {script{op: []error{nil}}, 1, 0, nil},
		"permanent stops":                {script{op: []error{duplicate}}, 1, 0, duplicate},
		"degraded stops":                 {script{op: []error{full}}, 1, 0, full},
		"own error stops":                {script{op: []error{errDone}}, 1, 0, errDone},
		"aborted runs again":             {script{op: []error{deadlock, deadlock, nil}}, 3, 0, nil},
		"not executed runs again":        {script{op: []error{starting, nil}}, 2, 0, nil},
		"stale plan runs again":          {script{op: []error{plan, nil}}, 2, 0, nil},
		"missing feature stops":          {script{op: []error{plan}}, 2, 0, plan},
		"tries are bounded":              {script{op: []error{deadlock}}, 8, 0, deadlock},
		"lost and done":                  {script{op: []error{io.EOF}, verify: []error{errDone}}, 1, 1, nil},
		"lost and not done":              {script{op: []error{io.EOF, nil}, verify: []error{nil}}, 2, 1, nil},
		"lost, reading back lost, done":  {script{op: []error{io.EOF}, verify: []error{io.EOF, io.EOF, errDone}}, 1, 3, nil},
		"lost, reading back lost, again": {script{op: []error{io.EOF, nil}, verify: []error{io.EOF, nil}}, 2, 2, nil},
		"nobody can tell":                {script{op: []error{io.EOF}, verify: []error{io.EOF}}, 1, 8, pglink.ErrUnknown},
		"reading back is wrong":          {script{op: []error{io.EOF}, verify: []error{duplicate}}, 1, 1, pglink.ErrUnknown},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				err := c.script.run(t.Context())
				if !errors.Is(err, c.want) {
					t.Errorf("error %v, want %v", err, c.want)
				}
				if c.script.tries != c.tries || c.script.readings != c.readings {
					t.Errorf("%d tries and %d readings, want %d and %d", c.script.tries, c.script.readings, c.tries, c.readings)
				}
			})
		})
	}
}

func TestDo_GivesUpWithinSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := script{op: []error{io.EOF}, verify: []error{io.EOF}}
		err := s.run(t.Context())
		if !errors.Is(err, pglink.ErrUnknown) {
			t.Errorf("error %v, want unknown", err)
		}
		if n := strings.Count(err.Error(), pglink.ErrUnknown.Error()); n != 1 || s.readings < 2 {
			t.Errorf("after %d readings it says %d times that the outcome is unknown: %v", s.readings, n, err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("gave up after %v", took)
		}
	})
}

func TestDo_ReadsBackOnceMoreWhenTheCallerGaveUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		verify error
		want   error
	}{
		"done":         {errDone, nil},
		"not done":     {nil, context.Canceled},
		"cannot tell":  {io.EOF, pglink.ErrUnknown},
		"cannot tell2": {io.EOF, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			s := script{op: []error{ctx.Err()}, verify: []error{c.verify}}
			if err := s.run(ctx); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if s.tries != 1 || s.readings != 1 {
				t.Errorf("%d tries and %d readings, want one of each", s.tries, s.readings)
			}
		})
	}
}

func TestDo_ReadingBackIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		err := pglink.Do(t.Context(), func(context.Context) error { return io.EOF },
			func(ctx context.Context) (bool, error) { <-ctx.Done(); return false, ctx.Err() })
		if !errors.Is(err, pglink.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want unknown after a deadline", err)
		}
	})
}

// The caller sets the time for reading back, because only the caller knows how large the write is.
func TestDo_ReadingBackHasTheTimeOfTheCall(t *testing.T) {
	t.Parallel()
	never := context.Background()
	for name, c := range map[string]struct {
		begin func() (context.Context, context.CancelFunc)
		want  time.Duration
	}{
		"no deadline":      {func() (context.Context, context.CancelFunc) { return context.WithCancel(never) }, 5 * time.Second},
		"a minute":         {func() (context.Context, context.CancelFunc) { return context.WithTimeout(never, time.Minute) }, time.Minute},
		"almost over":      {func() (context.Context, context.CancelFunc) { return context.WithTimeout(never, time.Second) }, 5 * time.Second},
		"over":             {func() (context.Context, context.CancelFunc) { return context.WithTimeout(never, -1) }, 5 * time.Second},
		"an hour":          {func() (context.Context, context.CancelFunc) { return context.WithTimeout(never, time.Hour) }, 5 * time.Minute},
		"canceled at ten":  {func() (context.Context, context.CancelFunc) { return canceledAfter(10 * time.Second) }, 15 * time.Second},
		"canceled at once": {func() (context.Context, context.CancelFunc) { return canceledAfter(0) }, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := c.begin()
				defer cancel()
				synctest.Wait()
				var took time.Duration
				_ = pglink.Do(ctx, func(context.Context) error { return io.EOF }, func(ctx context.Context) (bool, error) {
					start := time.Now()
					<-ctx.Done()
					took = time.Since(start)
					return true, nil
				})
				if took != c.want {
					t.Errorf("read back for %v, want %v", took, c.want)
				}
			})
		})
	}
}

// canceledAfter returns a context with a deadline far away, and cancels it after a while.
func canceledAfter(wait time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	timer := time.AfterFunc(wait, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}
