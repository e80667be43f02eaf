package queue

import (
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Worker describes a worker to the others, and says which runs it may claim.
type Worker struct {
	ID          uuid.UUID // new for each process; zero: made by Register
	Name        string
	Host        string
	BootID      string
	PID         int
	Version     string
	Labels      map[string]string
	Queues      []string // empty: all
	Offers      []string // what it can execute, in the words of dagspec.Spec.Needs
	Slots       int
	Containment string        // cgroup, subreaper, group or none
	TTL         time.Duration // how long it may be silent; zero: DefaultTTL
	Only        RunID         // not zero: it serves this run and the children it waits for, wherever they are queued, and nothing else

	// Replaces names workers that are known to be dead, with everything they ran: their runs are queued again at once.
	Replaces []uuid.UUID
}

// DefaultTTL of a lease: tasks live through a failover of two minutes, as managed databases take.
const DefaultTTL = 5 * time.Minute

// WorkerState is the state of a worker.
type WorkerState string

// Worker states. The first two also say what a worker is wanted to be; there, WorkerGone means: stop.
const (
	WorkerLive     WorkerState = "live"
	WorkerDraining WorkerState = "draining" // claims nothing more
	WorkerLost     WorkerState = "lost"     // found silent by another
	WorkerGone     WorkerState = "gone"     // stopped by itself
)

// Want is what a worker would claim, and what it lets others know.
type Want struct {
	Slots  int  // runs to claim for slots: for those that are free, and for those that end soon
	Idle   int  // where Slots is 0: runs that a request, a child's end or a timer brought back, and that may need no slot
	Free   int  // slots that are free: while the runs claimed leave some, the worker is told of new runs
	Lowest *int // claim only from lanes of at least this priority; nil: from all
	Fair   bool // what waits longest first, whatever its priority
	Begun  bool // claim nothing that is new
	Least  *int // the run priority of the next task that waits for a slot; nil: none waits
}

// Polled is what came of a Poll.
type Polled struct {
	Claims []*Claim
	Hungry bool        // it claimed fewer runs than it was to, and than slots are free: no more are due
	Sweep  bool        // there is something to mend: sweep
	Now    dagrun.Time // of the database when it looked; 0: it did not
}

// Load is what a worker says of its work when it looks.
type Load struct {
	Busy    int   // slots in use, for people
	Waiting int   // tasks that wait for a slot, for people
	Lanes   []int // of runs that can do nothing until they get a slot: whether other workers serve these lanes is looked up
}

// Looked is what came of a Look.
type Looked struct {
	Due     bool  // there may be something to claim: poll
	Sweep   bool  // there is something to mend: sweep
	Attend  bool  // something on the agenda is due: attend
	Highest *int  // priority of which a run is due; nil: none is
	Begun   int   // runs that have begun and are due, 100 at the most
	Shared  []int // lanes of Load.Lanes that another live worker may serve, sorted

	Now dagrun.Time // of the database when it looked; 0: it did not
}

// Swept is what came of a Sweep.
type Swept struct {
	Done   bool         // it looked at everything; else it was too soon
	Late   bool         // there are runs to claim that polls passed over: poll
	Sweep  bool         // there is more to mend: sweep again
	Lost   []LostWorker // whose runs were queued again
	Queued int          // runs of theirs
}

// LostWorker is a worker that another one took over from.
type LostWorker struct {
	ID   uuid.UUID
	Name string // "": the database knows no such worker any more
	Runs int    // that were queued again
}

// Renewal is the answer to a sign of life.
type Renewal struct {
	Now     dagrun.Time // of the database
	Desired WorkerState
	Mail    []Mail // claimed runs with undecided controls
}

// Mail says that a run has undecided controls. A driver that has seen this Inbox knows them.
type Mail struct {
	Run   RunID
	Inbox int64
}

// Heard is what notifications told, gathered. They are hints: whoever misses them polls.
type Heard struct {
	Lanes bool    // there may be something to claim
	Rows  int     // how many new runs are left to this worker, of those that others are told of as well
	Runs  []RunID // with new controls
	Drain bool    // renew: somebody wants something of the worker
	All   bool    // notifications may have been missed: look at everything
}

// Child asks for a run on behalf of a task.
type Child struct {
	Claim    *Claim
	Task     dagrun.TaskID
	Attempt  int
	DAG      string
	Params   dagrun.JSON // "" for none
	Priority *int
	Queue    string
	Labels   map[string]string
	Detached bool      // nobody waits for it
	Key      string    // of a detached one: whoever asks for the same by it, on behalf of the same submitter, gets the same run
	RunAt    time.Time // not before; zero: at once
}

// Settlement ends a task in the transaction of its own SQL.
type Settlement struct {
	Claim   *Claim
	Task    dagrun.TaskID
	Attempt int
	Outputs dagrun.JSON
}
