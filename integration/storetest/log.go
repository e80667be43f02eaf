package storetest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

const maxChunks = 1000 // how many chunks one ReadLogs returns

// attemptLog is the log of one attempt, in the order of the chunk numbers.
type attemptLog struct{ chunks []queue.Chunk }

// end returns the number of the next chunk, how many lines began before it, and whether the log is closed.
func (l *attemptLog) end() (next int, lines int64, final bool) {
	if len(l.chunks) == 0 {
		return 0, 0, false
	}
	last := l.chunks[len(l.chunks)-1]
	return last.Seq + 1, last.Lines, last.Final
}

func keyOf(c *queue.Chunk) attemptKey { return attemptKey{c.Run, c.Task, c.Attempt} }

// find returns the chunk with a number, nil for none.
func (l *attemptLog) find(seq int) *queue.Chunk {
	i, ok := slices.BinarySearchFunc(l.chunks, seq, func(c queue.Chunk, seq int) int { return c.Seq - seq })
	if !ok {
		return nil
	}
	return &l.chunks[i]
}

// AppendLogs stores chunks of runs that the worker has claimed. A chunk that is stored already changes nothing. If chunks
// of some runs cannot be stored, AppendLogs leaves them out and returns a *queue.AppendError that names these runs.
func (s *MemorySession) AppendLogs(ctx context.Context, chunks []queue.Chunk) error {
	m := s.store
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if m.refuses != nil {
		return fmt.Errorf("append logs: %w", m.refuses)
	}
	var left queue.AppendError
	for i := range chunks {
		c := &chunks[i]
		switch {
		case !s.holds(c.Run):
			left.Lost = append(left.Lost, c.Run)
		case m.conflicts(c):
			left.Conflicts = append(left.Conflicts, c.Run)
		case !slices.Contains(left.Conflicts, c.Run): // a chunk after a missing one is not stored
			m.appendChunk(c)
		}
	}
	if len(left.Lost)+len(left.Conflicts) == 0 {
		return nil
	}
	left.Lost, left.Conflicts = each(left.Lost), each(left.Conflicts)
	return fmt.Errorf("append logs: %w", &left)
}

// holds reports whether the session has a claim on a run, both by its own list and by the store's.
func (s *MemorySession) holds(id queue.RunID) bool {
	c := s.held[id]
	return c != nil && s.own(c) != nil
}

// each returns the runs without duplicates.
func each(runs []queue.RunID) []queue.RunID {
	slices.Sort(runs)
	return slices.Compact(runs)
}

// conflicts reports whether a different chunk with the same number is stored already.
func (m *Memory) conflicts(c *queue.Chunk) bool {
	l := m.logs[keyOf(c)]
	if l == nil {
		return false
	}
	old := l.find(c.Seq)
	return old != nil && (!bytes.Equal(old.Data, c.Data) || old.Final != c.Final || old.Stream != c.Stream || old.Reason != c.Reason || old.Dropped != c.Dropped || old.Lines != c.Lines)
}

// Followed reports whether a reader follows the log of a run while tasks write it.
func (s *MemorySession) Followed(id queue.RunID) bool {
	m := s.store
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.run(id)
	return err == nil && r.follow
}

// Follow sets whether a reader follows the log of a run.
func (m *Memory) Follow(id queue.RunID, follows bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.run(id)
	if err == nil {
		r.follow = follows
	}
	return err
}

func (m *Memory) appendChunk(c *queue.Chunk) {
	l := m.logs[keyOf(c)]
	if l == nil {
		l = &attemptLog{}
		m.logs[keyOf(c)] = l
	}
	i, known := slices.BinarySearchFunc(l.chunks, c.Seq, func(c queue.Chunk, seq int) int { return c.Seq - seq })
	if !known {
		stored := *c
		stored.Data = bytes.Clone(c.Data)
		l.chunks = slices.Insert(l.chunks, i, stored)
	}
}

// ReadLogs returns the chunks of an attempt in their order. Without a Step it returns those of the whole run, task by
// task.
func (m *Memory) ReadLogs(ctx context.Context, q queue.LogQuery) ([]queue.Chunk, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	r, err := m.run(q.Run)
	if err != nil {
		return nil, err
	}
	limit := maxChunks
	if q.Limit > 0 {
		limit = min(limit, q.Limit)
	}
	all := m.logged(r)
	if q.Step != "" {
		if all, err = m.loggedBy(r, &q); err != nil {
			return nil, err
		}
	} else if q.Last != nil {
		i := slices.IndexFunc(all, func(c queue.Chunk) bool { return keyOf(&c) == keyOf(q.Last) && c.Seq == q.Last.Seq })
		all = all[i+1:]
	}
	return slices.Clone(all[:min(limit, len(all))]), nil
}

// loggedBy returns the chunks of one attempt.
func (m *Memory) loggedBy(r *run, q *queue.LogQuery) ([]queue.Chunk, error) {
	id, err := r.version.graph.ParseTask(q.Step)
	if err != nil {
		return nil, refusal(queue.ErrNotFound, "OA007", "look at its tasks", "run %d has no step %s", q.Run, q.Step)
	}
	id.Item, id.Alt = q.Item, max(id.Alt, q.Alt)
	attempt := q.Attempt
	if attempt == 0 {
		attempt = r.latest(id)
	}
	chunks := m.chunks(r, attemptKey{r.id, id, attempt})
	from, _ := slices.BinarySearchFunc(chunks, q.From, func(c queue.Chunk, seq int) int { return c.Seq - seq })
	return chunks[from:], nil
}

// logged returns all chunks of a run.
func (m *Memory) logged(r *run) []queue.Chunk {
	keys := map[attemptKey]bool{}
	for key := range r.attempts {
		keys[key] = true
	}
	for id, row := range r.tasks {
		keys[attemptKey{r.id, id, row.Attempt}] = true
	}
	inTime := func(a, b attemptKey) int { return cmp.Or(inOrder(a.task, b.task), a.attempt-b.attempt) }
	var all []queue.Chunk
	for _, key := range slices.SortedFunc(maps.Keys(keys), inTime) {
		all = append(all, m.chunks(r, key)...)
	}
	return all
}

// chunks returns the chunks of one attempt. If the attempt wrote nothing, its log has no chunk and only its record shows
// its end.
func (m *Memory) chunks(r *run, key attemptKey) []queue.Chunk {
	if l := m.logs[key]; l != nil {
		return l.chunks
	}
	end := queue.Chunk{Run: r.id, Task: key.task, Attempt: key.attempt, Stream: queue.StreamOarlock, Data: []byte{}, Final: true}
	if a, superseded := r.attempts[key]; superseded {
		end.Day, end.At, end.Reason = queue.LogDay(a.StartedAt), moment(a.FinishedAt), wordOf(a.Kind, a.State)
	} else if row := r.tasks[key.task]; row != nil && row.Attempt == key.attempt && !row.day.IsZero() && row.logEnded() {
		end.Day, end.At, end.Reason = row.day, moment(row.FinishedAt), wordOf(row.Kind, row.State)
	} else {
		return nil
	}
	return []queue.Chunk{end}
}

func (row *taskRow) logEnded() bool {
	return row.State != dagrun.TaskRunning && row.State != dagrun.TaskWaiting && !row.LogGoesOn()
}

func wordOf(kind dagrun.FailureKind, state dagrun.State) string {
	return cmp.Or(string(kind), state.String())
}

func (r *run) latest(id dagrun.TaskID) int {
	if row := r.tasks[id]; row != nil {
		return row.Attempt
	}
	return 0
}
