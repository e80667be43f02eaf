package guard

import (
	"fmt"
	"strings"
	"time"
)

// Kind says what an Event is about.
type Kind string

// What a guard tells.
const (
	Waiting     Kind = "waiting"     // another guard or driver process of that name, PID, holds the lock
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
	Took    time.Duration
	Wait    time.Duration
	Err     error
}

func (e Event) String() string {
	var b strings.Builder
	b.WriteString(string(e.Kind))
	show := func(set bool, format string, value any) {
		if set {
			fmt.Fprintf(&b, format, value)
		}
	}
	show(e.PID != 0, " pid=%d", e.PID)
	show(e.Kind == Ended, " code=%d", e.Code)
	show(len(e.Workers) > 0, " workers=%s", strings.Join(e.Workers, ","))
	show(len(e.Left) > 0, " left=%q", e.Left)
	show(e.Took > 0, " took=%v", e.Took)
	show(e.Wait > 0, " wait=%v", e.Wait)
	show(e.Err != nil, " error=%q", fmt.Sprint(e.Err))
	return b.String()
}
