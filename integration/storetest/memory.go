package storetest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// Options of a Memory.
type Options struct {
	Now  func() time.Time     // the clock of the database and of all workers; nil: time.Now
	Boot func() time.Duration // the clock of Deadline; nil: time by Now since the Memory was made
	User string               // the user of all calls, allowed to do everything; "": "tester"
}

// Memory is a store without a database that follows the same rules. With a given clock and a given order of calls it is
// deterministic, ids included.
type Memory struct {
	now  func() time.Time
	boot func() time.Duration
	user string

	mu      sync.Mutex
	down    error
	refuses error // why the store takes no records; nil: it takes them

	takesAgain chan struct{} // closed when the store takes records again

	dags     map[string]*dag
	versions map[versionKey]*version
	queues   map[string]*queueRow
	lanes    []*lane // by priority, the highest first
	lanesOf  map[laneKey]*lane
	runs     []*run // by id, the first is 1
	keys     map[runKey]keyed
	children map[childKey]queue.RunID
	waking   heap[alarm] // parked runs
	expiring heap[alarm] // queued runs with a deadline
	workers  []*worker   // in the order of their registration
	byID     map[uuid.UUID]*worker
	ids      uint64 // counter for the ids of claims and workers
	controls int64
	events   int64
	logs     map[attemptKey]*attemptLog
	cache    map[cacheKey]cached

	pools   map[string]*poolRow
	permits []*permitRow

	schedules   []*scheduleRow
	scheduleIDs int64
}

// alarm is a moment at which to look at a run again. It counts only while the run still has the same moment in its own
// fields.
type alarm struct {
	at  time.Time
	run *run
}

func newAlarms() heap[alarm] {
	return heap[alarm]{less: func(a, b alarm) bool {
		return a.at.Before(b.at) || a.at.Equal(b.at) && a.run.id < b.run.id
	}}
}

// NewMemory makes an empty store with the queue "default".
func NewMemory(o Options) *Memory {
	m := &Memory{
		now: o.Now, boot: o.Boot, user: o.User,
		dags: map[string]*dag{}, pools: map[string]*poolRow{}, versions: map[versionKey]*version{}, queues: map[string]*queueRow{},
		lanesOf: map[laneKey]*lane{}, keys: map[runKey]keyed{}, children: map[childKey]queue.RunID{},
		waking: newAlarms(), expiring: newAlarms(),
		byID: map[uuid.UUID]*worker{}, logs: map[attemptKey]*attemptLog{}, cache: map[cacheKey]cached{},
	}
	if m.now == nil {
		m.now = time.Now
	}
	if m.boot == nil {
		made := m.now()
		m.boot = func() time.Duration { return m.now().Sub(made) }
	}
	if m.user == "" {
		m.user = "tester"
	}
	m.queues["default"] = &queueRow{name: "default"}
	return m
}

// Break makes every call fail with err and change nothing, until Break(nil), as if the database were away. Observers do
// not count the time around a failed look as silence of other workers.
func (m *Memory) Break(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = err
}

// enter locks the store for one call. On nil the caller must unlock m.mu.
func (m *Memory) enter(ctx interface{ Err() error }) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	if m.down != nil {
		defer m.mu.Unlock()
		return m.down
	}
	return nil
}

// newID returns an id that was not used before.
func (m *Memory) newID() uuid.UUID {
	m.ids++
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], m.ids*0x9e3779b97f4a7c15) // spread like random ids
	binary.BigEndian.PutUint64(id[8:], m.ids)
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

func (m *Memory) run(id queue.RunID) (*run, error) {
	if id < 1 || int(id) > len(m.runs) {
		return nil, refusal(queue.ErrNotFound, "OA007", "list runs to see which there are", "there is no run %d, or it is not yours", id)
	}
	return m.runs[id-1], nil
}

// refusal returns an error as the database words it, with a hint that the user can act on.
func refusal(is error, code, hint, message string, args ...any) error {
	err := &queue.Error{Code: code, Message: fmt.Sprintf(message, args...), Hint: hint}
	if is == nil {
		return err
	}
	return fmt.Errorf("%w: %w", is, err)
}

func stamp(t time.Time) dagrun.Time { return dagrun.Time(t.UnixMilli()) }

// moment is the reverse of stamp; 0 becomes the zero time.
func moment(t dagrun.Time) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(t)).UTC()
}

// spell encodes plain values as JSON.
func spell(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("%#v: %v", v, err))
	}
	return raw
}
