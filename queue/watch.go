package queue

import (
	"context"
	"iter"
	"reflect"
)

// Watch yields a run as it is, then whenever it changed, until it is over. Several changes at once may show as one. It
// goes on while the database is away; what it cannot wait out it yields as its last.
func (s *Store) Watch(ctx context.Context, run RunID) iter.Seq2[*Run, error] {
	return func(yield func(*Run, error) bool) {
		var last *Run
		err := s.look(ctx, run, func(ctx context.Context) (bool, error) {
			r, err := s.Get(ctx, run)
			if err != nil || reflect.DeepEqual(r, last) {
				return false, err
			}
			last = r
			return !yield(r, nil) || r.Over(), nil
		})
		if err != nil {
			yield(nil, said("watch a run", err))
		}
	}
}

// Listen calls news at once, and then whenever something may have changed of a run, of its tasks or, with logs, of what they
// write. It reads nothing itself, and goes on when the run is over: until ctx ends, or the store is closed (ErrClosed).
func (s *Store) Listen(ctx context.Context, run RunID, logs bool, news func()) error {
	news()
	f := s.newFollower(run, logs)
	defer f.close(ctx)
	for {
		heard, err := f.hear(ctx)
		if err != nil {
			return err
		}
		if heard {
			news()
		}
	}
}

// Await waits for the end of a run, and returns how it ended. It goes on while the database is away.
func (s *Store) Await(ctx context.Context, run RunID) (*Result, error) {
	var result *Result
	err := s.look(ctx, run, func(ctx context.Context) (over bool, err error) {
		result, err = s.Result(ctx, run)
		return err == nil && !result.FinishedAt.IsZero(), err
	})
	if err != nil {
		return nil, said("await a run", err)
	}
	return result, nil
}

// look calls at until it is done: at once, whenever there is news of the run, and now and then.
func (s *Store) look(ctx context.Context, run RunID, at func(context.Context) (done bool, err error)) error {
	var f *follower // most runs that are asked for are over
	for {
		done, err := s.glance(ctx, at)
		if done || err != nil && !passes(ctx, err) {
			return err
		}
		if f == nil {
			f = s.newFollower(run, false)
			defer f.close(ctx)
		}
		if err := f.wait(ctx); err != nil {
			return err
		}
	}
}

// glance bounds one look, so that a connection that hangs does not end the wait.
func (s *Store) glance(ctx context.Context, at func(context.Context) (bool, error)) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	return at(ctx)
}
