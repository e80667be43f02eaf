package queue

import (
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Worker describes a worker to other workers, and says which runs it may claim.
type Worker struct {
	ID          uuid.UUID // new for each process; zero: Register makes one
	Name        string
	Host        string
	BootID      string
	PID         int
	Version     string
	Labels      map[string]string
	Queues      []string // queues that it serves; empty: all
	Offers      []string // what it can execute, in the words of dagspec.Spec.Needs
	Slots       int
	Containment string        // cgroup, subreaper, group or none
	TTL         time.Duration // how long it may be silent before it counts as lost; zero: DefaultTTL
	Only        RunID         // not zero: it serves only this run and the child runs that this run waits for, in whatever queues they are

	// Replaces names workers that are known to be dead, with everything they ran. Register queues their runs again at once.
	Replaces []uuid.UUID
}

// DefaultTTL is the default TTL of a lease. It lets tasks survive a failover of two minutes, as managed databases need.
const DefaultTTL = 5 * time.Minute

// WorkerState is the state of a worker.
type WorkerState string

// Worker states. The first two are also states that a worker can be asked to take; there, WorkerGone means that it must stop.
const (
	WorkerLive     WorkerState = "live"
	WorkerDraining WorkerState = "draining" // it claims nothing more
	WorkerLost     WorkerState = "lost"     // another worker found it silent
	WorkerGone     WorkerState = "gone"     // it stopped by itself
)

// Want is the number and the kind of runs that a worker wants to claim, and its state for other workers.
type Want struct {
	Slots  int   // runs to claim for slots, both for free slots and for slots that will be free soon
	Idle   int   // if Slots is 0: runs to claim that a request, a child's end or a timer brought back, and that may need no slot
	Free   int   // free slots; while the claimed runs leave some of them free, the worker is notified of new runs
	Lowest *int  // lowest priority of lanes to claim from; nil: all lanes
	Fair   bool  // claim the run that has waited longest first, whatever its priority
	Begun  bool  // claim no new runs
	Skip   []int // lanes from which to claim no new runs
	Least  *int  // run priority of the next task that waits for a slot; nil: none waits
}

// Polled is the result of a Poll.
type Polled struct {
	Claims []*Claim
	Hungry bool        // the Poll claimed fewer runs than it wanted and than slots are free, so no more are due
	Sweep  bool        // there is something to mend: call Sweep
	Now    dagrun.Time // the database's time of the Poll; 0: it did not get that far
}

// Load is what a worker says about its work when it looks.
type Load struct {
	Busy    int   // slots in use, for people
	Waiting int   // tasks that wait for a slot, for people
	Lanes   []int // lanes of runs that can do nothing until they get a slot; the Look finds out whether other workers serve these lanes
}

// Looked is the result of a Look.
type Looked struct {
	Due     bool  // there may be a run to claim: call Poll
	Sweep   bool  // there is something to mend: call Sweep
	Attend  bool  // an item of the agenda is due: call Attend
	Highest *int  // highest priority at which a run is due; nil: no run is due
	Begun   int   // runs that have begun and are due; at most 100 are counted
	Shared  []int // lanes of Load.Lanes that another live worker may serve, sorted

	Now dagrun.Time // the database's time of the Look; 0: it did not get that far
}

// Swept is the result of a Sweep.
type Swept struct {
	Done   bool         // the sweep was made; false: it was too soon
	Late   bool         // there are runs to claim that polls passed over: call Poll
	Sweep  bool         // there is more to mend: call Sweep again
	Lost   []LostWorker // lost workers; their runs were queued again
	Queued int          // number of these runs
}

// LostWorker is a worker from which this worker took over.
type LostWorker struct {
	ID   uuid.UUID
	Name string // "": the database no longer knows the worker
	Runs int    // runs that were queued again
}

// Renewal is the answer to a renewal.
type Renewal struct {
	Now     dagrun.Time // the database's time
	Desired WorkerState
	Mail    []Mail // claimed runs with undecided controls
}

// Mail says that a run has undecided controls. A driver that has read the mailbox up to this Inbox knows them already.
type Mail struct {
	Run   RunID
	Inbox int64
}

// Heard collects what notifications said. They are hints: a worker that misses some finds the same by polling.
type Heard struct {
	Lanes   bool    // there may be something to claim
	Rows    int     // new runs that are left to this worker, of those that other workers are notified of too
	Runs    []RunID // runs with new controls
	Permits bool    // permits were granted: call Permits
	Drain   bool    // there is a request to the worker: call Renew
	All     bool    // notifications may have been missed: check everything
}

// Child is a request for a run on behalf of a task.
type Child struct {
	Claim    *Claim
	Task     dagrun.TaskID
	Attempt  int
	DAG      string
	Params   dagrun.JSON // "": none
	Priority *int
	Queue    string
	Labels   map[string]string
	Detached bool      // no task waits for the run
	Key      string    // of a detached run: every request with the same key, on behalf of the same submitter, gets the same run
	RunAt    time.Time // earliest start; zero: at once
}

// Settlement ends a task in the transaction of the task's own SQL.
type Settlement struct {
	Claim   *Claim
	Task    dagrun.TaskID
	Attempt int
	Outputs dagrun.JSON
}
