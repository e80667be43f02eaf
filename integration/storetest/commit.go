package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	maxItemBytes = dagrun.MaxKeyBytes
	maxAlt       = dagrun.MaxReplacements
)

// Commit writes a batch completely or not at all.
func (s *MemorySession) Commit(ctx context.Context, b *queue.Batch) error {
	m := s.store
	if err := s.untilTaken(ctx, b.Claim); err != nil {
		return err
	}
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	r := s.own(b.Claim)
	if r == nil {
		return fmt.Errorf("commit run %d: %w", b.Claim.Run, queue.ErrLeaseLost)
	}
	if (b.Leave != nil || b.Result != nil) && r.inbox != b.Seen {
		return fmt.Errorf("commit run %d: %w", r.id, queue.ErrInboxMoved)
	}
	if err := r.accepts(b); err != nil {
		delete(s.held, r.id)
		m.failRun(r, "internal: "+err.Error())
		return fmt.Errorf("commit run %d: %w: %w", r.id, queue.ErrRefused, err)
	}
	r.acted = r.acted || acts(b)
	m.write(r, b)
	s.leave(r, b)
	return nil
}

// resets reports whether a retry or a mark of the run asks for this change of a task that has ended: a control that is not decided,
// or for an item or a replacement one that was applied.
func (r *run) resets(old, rec *dagrun.TaskRecord) bool {
	return rec.ResetBy > old.ResetBy && slices.ContainsFunc(r.controls, func(c *queue.Control) bool {
		child := rec.ID.Item != "" || rec.ID.Alt > 0
		return c.ID == rec.ResetBy && (c.Verb == dagrun.VerbRetry || c.Verb == dagrun.VerbMark) && (c.DecidedAt.IsZero() || child && c.Outcome == dagrun.Applied)
	})
}

// accepts returns an error for a batch with values that no table would take.
func (r *run) accepts(b *queue.Batch) error {
	for i := range b.Records.Tasks {
		rec := &b.Records.Tasks[i]
		if err := acceptable(rec); err != nil {
			return err
		}
		old := r.tasks[rec.ID]
		switch {
		case old == nil || !newer(old, b.Claim.Epoch, rec.Seq):
		case rec.Generation < old.Generation:
			return fmt.Errorf("task %s: its generation falls", r.version.graph.TaskName(rec.ID))
		case old.State.Terminal() && rec.Generation == old.Generation && !r.resets(&old.TaskRecord, rec):
			return fmt.Errorf("task %s is %s and changes no more", r.version.graph.TaskName(rec.ID), old.State)
		}
	}
	for i := range b.Records.Attempts {
		if err := clean(b.Records.Attempts[i].Reason); err != nil {
			return err
		}
	}
	for i := range b.Records.Notes {
		if err := clean(b.Records.Notes[i].Text); err != nil {
			return err
		}
	}
	if rec := b.Records.Run; rec != nil {
		return clean(rec.Reason, rec.EndingBy, rec.EndingText, rec.PausedBy)
	}
	return nil
}

// acts reports whether a batch tells more than the start of its run.
func acts(b *queue.Batch) bool {
	rec := &b.Records
	return len(rec.Tasks)+len(rec.Attempts)+len(rec.Controls)+len(rec.Notes)+len(b.Chunks) > 0 ||
		rec.Run != nil && (rec.Run.Ending != dagrun.EndingNone || rec.Run.PausedBy != "")
}

// newer reports whether a record is later than the stored row.
func newer(old *taskRow, epoch int, seq int64) bool {
	return old.epoch < epoch || old.epoch == epoch && old.Seq < seq
}

func acceptable(rec *dagrun.TaskRecord) error {
	if len(rec.ID.Item) > maxItemBytes || rec.ID.Alt > maxAlt || rec.ID.Step < 0 || rec.Attempt < 0 {
		return fmt.Errorf("task %v in attempt %d: out of bounds", rec.ID, rec.Attempt)
	}
	if err := clean(rec.ID.Item, rec.Reason, rec.RequestBy, rec.Ref, rec.CacheKey); err != nil {
		return err
	}
	if a := rec.Asks; a != nil && a.Open && (len(a.Prompt) > dagrun.MaxPromptBytes || !storable(a.Prompt)) {
		return fmt.Errorf("a prompt of %d bytes, or no text", len(a.Prompt))
	}
	if o := string(rec.Outputs); o != "" && (!json.Valid([]byte(o)) || strings.Contains(o, `\u0000`) || !utf8.ValidString(o)) {
		return errors.New("outputs that are not JSON, or have a NUL")
	}
	return nil
}

// storable reports whether a text column takes t.
func storable(t string) bool { return !strings.Contains(t, "\x00") && utf8.ValidString(t) }

// write stores the records of a batch. A record that is stored already stays as it is.
func (m *Memory) write(r *run, b *queue.Batch) {
	finished := false
	for i := range b.Records.Tasks {
		rec := &b.Records.Tasks[i]
		finished = m.writeTask(r, b, rec) || finished
	}
	if finished {
		r.losses = 0
	}
	for _, d := range b.Details {
		if row := r.tasks[d.Task]; row != nil {
			row.slot, row.lastLine = d.Slot, d.LastLine
		}
	}
	for _, a := range b.Records.Attempts {
		key := attemptKey{r.id, a.ID, a.Attempt}
		if _, known := r.attempts[key]; !known {
			r.attempts[key] = attemptRow{a, r.tasks[a.ID].name()}
		}
	}
	for _, d := range b.Records.Controls {
		m.answer(r, d)
	}
	for _, n := range b.Records.Notes {
		m.writeNote(r, b.Claim, n)
	}
	for i := range b.Chunks {
		m.appendChunk(&b.Chunks[i])
	}
	m.keep(b)
	if b.Records.Run != nil {
		started := r.rec.StartedAt // the claim set it; batches do not change it
		r.rec = *b.Records.Run
		r.rec.StartedAt = started
	}
}

// name returns the name of the worker that ran the task last.
func (row *taskRow) name() string {
	if row == nil {
		return ""
	}
	return row.worker
}

// writeTask stores one task record and reports whether the task finished with it.
func (m *Memory) writeTask(r *run, b *queue.Batch, rec *dagrun.TaskRecord) bool {
	row, known := r.row(rec.ID)
	if known && !newer(row, b.Claim.Epoch, rec.Seq) {
		return false
	}
	if !known || row.Attempt != rec.Attempt {
		row.settled = nil
		row.worker = r.owner.Name
	}
	row.TaskRecord, row.epoch = *rec, b.Claim.Epoch
	row.ask(rec)
	if rec.AttemptAt != 0 {
		row.day = queue.LogDay(rec.AttemptAt)
	}
	return rec.State.Terminal()
}

func (m *Memory) writeNote(r *run, c *queue.Claim, n dagrun.Note) {
	e := queue.Event{At: moment(n.At), Kind: n.Kind, Worker: r.owner.Name, Epoch: c.Epoch, Message: n.Text}
	if n.Task != nil {
		e.Step, e.Item = r.stepName(*n.Task), n.Task.Item
	}
	m.log(r, e)
}

// answer stores the decision about a control. Only the first decision counts.
func (m *Memory) answer(r *run, d dagrun.Decision) {
	for _, c := range r.controls {
		if c.ID == d.ID && c.DecidedAt.IsZero() {
			c.DecidedAt, c.Outcome, c.State, c.Message = m.now(), d.Outcome, d.State, d.Message
		}
	}
}

// leave gives the claim back if the batch ends the drive.
func (s *MemorySession) leave(r *run, b *queue.Batch) {
	if b.Leave == nil && b.Result == nil {
		return
	}
	m := s.store
	m.letGo(r)
	delete(s.held, r.id)
	switch {
	case b.Result != nil:
		r.rec.State, r.rec.Reason, r.rec.Tolerated = b.Result.State, b.Result.Reason, b.Result.Tolerated
		if r.rec.FinishedAt == 0 {
			r.rec.FinishedAt = stamp(m.now())
		}
		m.tellParent(r)
	case b.Leave.Drained && b.Waits:
		m.requeue(r, stageBegun, reachRanked)
		m.wakeAt(r, b.Leave.WakeAt)
	case b.Leave.Drained:
		m.requeue(r, stageRoused, reachRanked)
	default:
		m.park(r, b.Leave)
	}
}

// park gives a run up until a timer, a control or the end of a child run wakes it.
func (m *Memory) park(r *run, l *dagrun.Leave) {
	if r.rec.State == dagrun.RunRunning {
		r.rec.State = dagrun.RunWaiting
	}
	r.stage, r.wakeAt = stageBegun, noTime
	if r.rec.State == dagrun.RunWaiting {
		m.wakeAt(r, l.WakeAt)
	}
}

// wakeAt arms the timer of a run: a look that happens at or after this moment queues the run. For 0 there is no timer.
func (m *Memory) wakeAt(r *run, at dagrun.Time) {
	if at != 0 {
		r.wakeAt = moment(at)
		m.waking.push(alarm{r.wakeAt, r})
	}
}

// failRun ends a run as failed because no worker can drive it, or because its records cannot be stored.
func (m *Memory) failRun(r *run, reason string) {
	by := r.owner.Name
	m.letGo(r)
	now := stamp(m.now())
	for _, row := range r.tasks {
		if !row.State.Terminal() {
			row.State, row.Reason, row.FinishedAt, row.NextAt, row.Deadline = dagrun.TaskCanceled, reason, now, 0, 0
			row.asks = nil
		}
	}
	for _, c := range r.undecided() {
		m.answer(r, dagrun.Decision{ID: c.ID, Outcome: dagrun.Refused, State: "failed", Message: reason})
	}
	r.rec = dagrun.RunRecord{
		Generation: r.rec.Generation, StartedAt: r.rec.StartedAt, Counts: r.rec.Counts,
		Ending: dagrun.EndingRefused, EndingText: reason,
	}
	m.log(r, queue.Event{Kind: "refused", Worker: by, Epoch: r.epoch, Message: reason})
	m.end(r, dagrun.RunFailed, reason)
}

// Release gives a claim back. With waits, the run's next task waits for a slot: the run is queued for one, and wake, if it
// is not 0, arms the run's timer. Release returns queue.ErrLeaseLost if the claim is gone. With waits it returns
// queue.ErrInboxMoved if a control arrived since the claim.
func (s *MemorySession) Release(ctx context.Context, c *queue.Claim, waits bool, wake dagrun.Time) error {
	m := s.store
	if err := s.untilTaken(ctx, c); err != nil {
		return err
	}
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	r := s.own(c)
	if r == nil {
		return fmt.Errorf("release run %d: %w", c.Run, queue.ErrLeaseLost)
	}
	if waits && r.inbox != c.Inbox {
		return fmt.Errorf("release run %d: %w", c.Run, queue.ErrInboxMoved)
	}
	switch {
	case !c.Begun && !r.acted && !m.tells(r):
		s.release(r, stageNew)
	case waits && (c.Begun || r.acted):
		s.release(r, stageBegun)
		m.wakeAt(r, wake)
	default:
		s.release(r, stageRoused)
	}
	return nil
}

// release queues a run again. A new run looks as if no worker had ever claimed it.
func (s *MemorySession) release(r *run, stage int) {
	delete(s.held, r.id)
	s.store.letGo(r)
	if stage == stageNew {
		r.rec.StartedAt, r.rec.Deadline = 0, 0
		if !r.queueDeadline.IsZero() {
			s.store.expiring.push(alarm{r.queueDeadline, r})
		}
	}
	s.store.requeue(r, stage, reachRanked)
}

// tells reports whether other rows show that a run has begun: a task of its generation, or an open child.
func (m *Memory) tells(r *run) bool {
	for _, row := range r.tasks {
		if row.Generation == r.rec.Generation {
			return true
		}
	}
	open := func(k *run) bool { return k.parent == r.id && !k.over() }
	return slices.ContainsFunc(m.runs, open)
}

// FailRun ends a run as failed because no worker can drive it.
func (s *MemorySession) FailRun(ctx context.Context, c *queue.Claim, why error) error {
	m := s.store
	if err := s.untilTaken(ctx, c); err != nil {
		return err
	}
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	r := s.own(c)
	if r == nil {
		return fmt.Errorf("fail run %d: %w", c.Run, queue.ErrLeaseLost)
	}
	delete(s.held, r.id)
	m.failRun(r, "internal: "+why.Error())
	return nil
}

// EnqueueChild enqueues a run on behalf of a task. If the same attempt asks again, it gets the same run.
func (s *MemorySession) EnqueueChild(ctx context.Context, c queue.Child) (queue.RunID, error) {
	m := s.store
	if err := m.enter(ctx); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	if err := s.usable(); err != nil {
		return 0, err
	}
	r := s.own(c.Claim)
	if r == nil {
		return 0, fmt.Errorf("enqueue a child of run %d: %w", c.Claim.Run, queue.ErrLeaseLost)
	}
	return m.child(r, &c)
}

// Settle stands for the last statement of a task's own transaction: the result is durable before the driver records it.
func (s *MemorySession) Settle(ctx context.Context, set queue.Settlement) error {
	m := s.store
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	r := s.own(set.Claim)
	if r == nil {
		return fmt.Errorf("settle: %w", queue.ErrLeaseLost)
	}
	row := r.tasks[set.Task]
	if row == nil || row.State != dagrun.TaskRunning || row.Attempt != set.Attempt {
		return fmt.Errorf("settle run %d: attempt %d does not run: %w", r.id, set.Attempt, queue.ErrLeaseLost)
	}
	row.settled = &queue.Settled{Task: set.Task, Attempt: set.Attempt, Outputs: set.Outputs}
	return nil
}

var errNoText = errors.New("not a text that a database takes")

// clean returns an error if one of the texts cannot be stored.
func clean(texts ...string) error {
	for _, t := range texts {
		if !storable(t) {
			return fmt.Errorf("%w: %.40q", errNoText, t)
		}
	}
	return nil
}
