package supervise

import "time"

// Kind says what an Event is about.
type Kind string

// What a guard tells.
const (
	Waiting     Kind = "waiting"     // another guard or driver process of that name, PID, holds the lock
	Freed       Kind = "freed"       // the lock is free after such a wait, which Took so long
	Evicted     Kind = "evicted"     // a driver process, PID, that did not end after its guard had, was killed
	Ignored     Kind = "ignored"     // the list of worker ids cannot be used, see Err: nobody is replaced
	Uncontained Kind = "uncontained" // no cgroup, see Err: the guard goes on without
	Swept       Kind = "swept"       // nothing is left of the earlier incarnation, whose ids are Workers
	Started     Kind = "started"     // a driver process, PID, which is to replace Workers
	Overdue     Kind = "overdue"     // it is killed, with all it started, see Err
	Blocked     Kind = "blocked"     // processes survive SIGKILL, see Left: no successor before they are gone
	Ended       Kind = "ended"       // the driver process, PID, ended with Code, and nothing is left of it
	Delayed     Kind = "delayed"     // its successor starts after Wait
	Unwritten   Kind = "unwritten"   // the lock file could not be written, see Err
)

// Event is something that happened. Which fields are set depends on its kind.
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
