package queue

import (
	"context"
	"iter"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// LogReader reads the logs that a query picks in the order in which they arrived, each chunk once, in bounded memory. It
// belongs to one goroutine.
type LogReader struct{ reader logReader }

// OpenLogs makes a reader of the logs that a query picks. Nothing is read yet, and nothing needs to be closed.
func (s *Store) OpenLogs(q LogQuery) *LogReader { return &LogReader{logReader{store: s, query: q}} }

// Stored yields what is there by now and was not yielded before. What goes wrong it yields as its last.
func (l *LogReader) Stored(ctx context.Context) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		f := following{reader: &l.reader, yield: yield}
		err := f.look(ctx)
		for err == nil && l.reader.more && !f.left {
			err = f.pass(ctx)
		}
		if err != nil {
			yield(Chunk{}, said("read logs", err))
		}
	}
}

// Follow goes on as FollowLogs does. It calls idle, which may be nil, whenever it begins to wait.
func (l *LogReader) Follow(ctx context.Context, idle func()) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		f := following{reader: &l.reader, yield: yield, idle: idle}
		if err := f.run(ctx); err != nil {
			yield(Chunk{}, said("follow logs", err))
		}
	}
}

// Run is the run whose logs are read.
func (l *LogReader) Run() RunID { return l.reader.query.Run }

// Over says whether the run had ended when the reader looked last: then all there will be was read.
func (l *LogReader) Over() bool { return l.reader.over }

// Steps are the names of the run's steps, handlers included, once something was asked for.
func (l *LogReader) Steps() []string { return l.reader.steps }

// Known are the names of tasks, step and item, that had a log to read so far.
func (l *LogReader) Known() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for key := range l.reader.known {
			if !yield(l.reader.name(key.task), key.task.Item) {
				return
			}
		}
	}
}

// Tasks counts the tasks that had a log to read so far.
func (l *LogReader) Tasks() int {
	tasks := map[dagrun.TaskID]bool{}
	for key := range l.reader.known {
		tasks[key.task] = true
	}
	return len(tasks)
}
