package queue

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// RunID is the number of a run.
type RunID int64

// Claim is the ownership of a run by one drive, with the run as it was when it was claimed. Its fields must not be changed.
type Claim struct {
	Run     RunID
	UID     uuid.UUID // of the run: what other systems are told is made of it, since numbers come again after a restore
	ID      uuid.UUID // never used twice
	Epoch   int       // counts the drives of the run
	Inbox   int64     // when it was claimed
	Begun   bool      // it had started before, so that giving it back does not make it one that never was claimed
	Limited bool      // it was claimed behind a limit: its end makes room for another run

	DAG         string
	DAGID       int64
	Version     int
	Lane        int
	Queue       string
	Priority    int // of its lane: higher goes first
	Losses      int // drives lost since a task of the run last finished
	Params      json.RawMessage
	Labels      json.RawMessage
	Precomputed json.RawMessage // nil for none
	RunAt       time.Time
	LogicalAt   time.Time
	CreatedAt   time.Time
	Trigger     string
	SubmittedBy string
	Key         string
	Traceparent string
	Parent      RunID // 0 for none
	Root        RunID
	Depth       int

	Schedule          string    // the name of the schedule that made the run, "" where none did
	PreviousLogicalAt time.Time // the time of that schedule before LogicalAt; zero: none

	// Row is the run's own row as the last drive left it. Its State is RunQueued: what a claim finds.
	Row dagrun.RunRecord

	stage      int       // where it stood in the queue
	readyAt    time.Time // its place there
	unreadable error     // why the rest of it is not as it was stored: it never leaves the session

	lost     chan struct{}
	lostOnce sync.Once
	left     atomic.Bool
	leaving  func() // told of Leave where it was lost before; nil: nobody is
}

// NewClaim makes a claim that is not lost. Stores fill in its fields before anybody else sees it.
func NewClaim(run RunID, id uuid.UUID) *Claim {
	return &Claim{Run: run, ID: id, lost: make(chan struct{})}
}

// Fresh says that the run has no tasks and no controls yet: there is nothing to Load.
func (c *Claim) Fresh() bool { return c.Epoch == 1 && c.Inbox == 0 }

// Begins says whether a record of the run only says that it is running, as its row does since the claim.
func (c *Claim) Begins(rec *dagrun.RunRecord) bool {
	was, is := c.Row, *rec
	was.State, was.StartedAt = dagrun.RunRunning, is.StartedAt // which the claim stored, and nothing changes
	was.Counts, is.Counts = dagrun.Counts{}, dagrun.Counts{}
	return was == is
}

// Results are what was handed in with the request instead of running steps, by step; nil for none.
func (c *Claim) Results() (map[string]dagrun.Result, error) {
	if len(c.Precomputed) == 0 {
		return nil, nil //nolint:nilnil // none were
	}
	var given map[string]struct {
		ExitCode int             `json:"exit_code"`
		Outputs  json.RawMessage `json:"outputs"`
	}
	if err := json.Unmarshal(c.Precomputed, &given); err != nil {
		return nil, fmt.Errorf("precomputed results: %w", err)
	}
	results := make(map[string]dagrun.Result, len(given))
	for step, g := range given {
		res := dagrun.Result{ExitCode: g.ExitCode, HasExit: true, Outputs: dagrun.JSON(g.Outputs)}
		if g.ExitCode != 0 {
			res.Kind = dagrun.KindExit
		}
		results[step] = res
	}
	return results, nil
}

// Lost is closed once the session knows that the claim is gone.
func (c *Claim) Lost() <-chan struct{} { return c.lost }

// Forfeit closes Lost. Stores call it; it may be called more than once.
func (c *Claim) Forfeit() { c.lostOnce.Do(func() { close(c.lost) }) }

// Leave says that its driver is gone, with everything of the run that it had under way. Before that the worker does not give
// back a claim that was lost and that the database still has.
func (c *Claim) Leave() {
	c.left.Store(true)
	select {
	case <-c.lost:
		if c.leaving != nil {
			c.leaving()
		}
	default:
	}
}

// Loaded is what a former drive left of a run, and what waits for its next driver.
type Loaded struct {
	Saved   dagrun.Saved // what dagrun.Restore takes
	Settled []Settled    // step each as EvSettled before EvBegin
	Mailbox Mailbox
	Logs    []LogEnd // of the tasks recorded as running, or with a publish to come: where their log ends
}

// Settled is a result that committed together with a task's own SQL, but was not recorded yet.
type Settled struct {
	Task    dagrun.TaskID
	Attempt int
	Outputs dagrun.JSON
}

// LogEnd says where the stored log of an attempt ends.
type LogEnd struct {
	Task    dagrun.TaskID
	Attempt int
	Day     time.Time // the log_day of the attempt
	Next    int       // number of the next chunk
	Lines   int64     // begun before it
	Final   bool      // the final marker is there
}

// Mailbox is what people and child runs ask of a run, as one moment shows it.
type Mailbox struct {
	Inbox    int64     // Batch.Seen, once all Controls were stepped
	Controls []Control // undecided, oldest first
}

// Batch is what one drive wants to be durable: the records of one Ready, in one piece.
type Batch struct {
	Claim   *Claim
	Seen    int64 // Mailbox.Inbox, or Claim.Inbox while nothing was read
	Records dagrun.Records
	Leave   *dagrun.Leave   // the drive ends and the run goes on later
	Result  *dagrun.Verdict // the drive ends and the run is over
	Details []Detail
	Keeps   []Keep
	Chunks  []Chunk // the last pieces of logs, which ride with the records of their ends
	Waits   bool    // with Leave.Drained: its next task waits for a slot, and at Leave.WakeAt something is due all the same
}

// Keep has a task's outputs found by later tasks of the step that have the same cache key: those of its record in the same
// batch, which names the key and says succeeded.
type Keep struct {
	Task dagrun.TaskID
	Step string        // as Cached is asked for it
	TTL  time.Duration // 0: for good

	Shared bool // found by runs of other submitters too
}

// keepOf says whether a record's outputs are to be kept.
func (b *Batch) keepOf(t *dagrun.TaskRecord) *Keep {
	if t.State != dagrun.TaskSucceeded || t.CacheKey == "" {
		return nil
	}
	for i := range b.Keeps {
		if b.Keeps[i].Task == t.ID {
			return &b.Keeps[i]
		}
	}
	return nil
}

// Detail adds to a task's row what the core does not know. A task without one keeps what is stored.
type Detail struct {
	Task     dagrun.TaskID
	Slot     int
	LastLine string // of stderr, for status
}

// ends says whether the claim is given back with this batch.
func (b *Batch) ends() bool { return b.Leave != nil || b.Result != nil }
