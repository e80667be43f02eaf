package queue

import (
	"context"
	"iter"
)

// FollowLogs yields chunks of the logs that the query picks as they come: what is there already, in the order in which it
// arrived, then what is appended, each chunk once and each attempt's in their order, whatever becomes of connections meanwhile. It ends when the run is over
// and all is read, or after the last chunk of the one attempt that the query names. While the database is away it waits;
// what it cannot wait out it yields as its last.
//
// A run whose log is followed has it flushed and announced at once, which costs its worker. Whoever crashes is forgotten
// within a minute.
func (s *Store) FollowLogs(ctx context.Context, q LogQuery) iter.Seq2[Chunk, error] {
	return s.OpenLogs(q).Follow(ctx, nil)
}

// following is a FollowLogs under way.
type following struct {
	reader *logReader
	yield  func(Chunk, error) bool
	idle   func() // nil: nobody wants to know
	left   bool   // whoever ranges over it
}

func (f *following) run(ctx context.Context) error {
	q := f.reader.query
	follower := f.reader.store.newFollower(q.Run, true)
	defer follower.close(ctx)
	for {
		err := f.look(ctx)
		switch {
		case f.left, err == nil && !f.reader.more && f.isDone():
			return nil
		case err != nil && !passes(ctx, err):
			return err
		case err == nil && f.reader.more:
			continue
		}
		if f.idle != nil {
			f.idle()
		}
		if err := follower.wait(ctx); err != nil {
			return err
		}
	}
}

// isDone says that there will be nothing more: of the run, or of the one attempt that the query names.
func (f *following) isDone() bool {
	q := f.reader.query
	return f.reader.over || f.reader.task != nil && q.Attempt > 0 && f.reader.ended > 0
}

// look reads what there is. That the run is over it learns before it reads the last of its logs.
func (f *following) look(ctx context.Context) error {
	if err := f.reader.begin(ctx); err != nil {
		return err
	}
	if err := f.reader.discover(ctx); err != nil {
		return err
	}
	return f.pass(ctx)
}

func (f *following) pass(ctx context.Context) error {
	return f.reader.newArrival().each(ctx, func(c Chunk) bool {
		f.left = !f.yield(c, nil)
		return !f.left
	})
}
