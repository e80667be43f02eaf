package supervise

import "time"

// Kind is the kind of an Event.
type Kind string

// Kinds of events. A successor is the next driver process.
const (
	Waiting     Kind = "waiting"     // another guard or driver process (PID) of the same name holds the lock
	Freed       Kind = "freed"       // the lock is free, after a wait of Took
	Evicted     Kind = "evicted"     // a driver process (PID) that outlived its guard was killed
	Ignored     Kind = "ignored"     // the list of worker ids cannot be used (Err), so no worker id is replaced
	Uncontained Kind = "uncontained" // there is no cgroup (Err); the guard goes on without
	Swept       Kind = "swept"       // nothing is left of the earlier incarnation with the ids Workers
	Started     Kind = "started"     // a driver process (PID) started, which is to replace Workers
	Overdue     Kind = "overdue"     // the driver process and all its descendants are being killed, see Err
	Blocked     Kind = "blocked"     // processes (Left) survive SIGKILL; no successor starts before they are gone
	Ended       Kind = "ended"       // the driver process (PID) ended with Code, and nothing is left of it
	Delayed     Kind = "delayed"     // the successor starts after Wait
	Unwritten   Kind = "unwritten"   // the lock file could not be written, see Err
)

// Event is something that happened to a guard or its driver process. Kind decides which fields are set.
type Event struct {
	Kind    Kind
	PID     int
	Code    int
	Workers []string // worker ids
	Left    []string // processes
	Last    bool     // of Ended: no other driver process follows
	Took    time.Duration
	Wait    time.Duration
	Err     error
}
