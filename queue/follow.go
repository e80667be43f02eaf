package queue

import (
	"context"
	"iter"
)

// FollowLogs yields chunks of the logs that the query picks as they come: what is there already, then what is appended,
// each chunk once and each attempt's in their order, whatever becomes of connections meanwhile. It ends when the run is over
// and all is read, or after the last chunk of the one attempt that the query names. While the database is away it waits;
// what it cannot wait out it yields as its last.
//
// A run whose log is followed has it flushed and announced at once, which costs its worker. Whoever crashes is forgotten
// within a minute.
func (s *Store) FollowLogs(ctx context.Context, q LogQuery) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		f := following{reader: logReader{store: s, query: q}, yield: yield}
		if err := f.run(ctx); err != nil {
			yield(Chunk{}, said("follow logs", err))
		}
	}
}

// following is a FollowLogs under way.
type following struct {
	reader logReader
	yield  func(Chunk, error) bool
	left   bool // whoever ranges over it
}

func (f *following) run(ctx context.Context) error {
	q := f.reader.query
	follower := f.reader.store.newFollower(q.Run, true)
	defer follower.close(ctx)
	for {
		err := f.look(ctx)
		switch {
		case f.left, err == nil && (f.reader.over || q.Attempt > 0 && f.reader.ended > 0):
			return nil
		case err != nil && !passes(ctx, err):
			return err
		case err == nil && f.reader.more:
			continue
		}
		if err := follower.wait(ctx); err != nil {
			return err
		}
	}
}

// look reads what there is. That the run is over it learns before it reads the last of its logs.
func (f *following) look(ctx context.Context) error {
	if err := f.reader.begin(ctx); err != nil {
		return err
	}
	if err := f.reader.discover(ctx); err != nil {
		return err
	}
	return f.reader.sweep(ctx, maxReadChunks, func(page []Chunk) bool {
		for _, c := range page {
			if !f.yield(c, nil) {
				f.left = true
				return false
			}
		}
		return true
	})
}
