package cli

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/worker/supervise"
)

// guarded is the worker of a guard's events.
type guarded struct{ name, state string }

// guardSentences describe the events of a guard, by the name of its worker.
var guardSentences = map[supervise.Kind]string{
	supervise.Freed:       "the other worker named %s has ended: this one goes on",
	supervise.Evicted:     "killed the driver process of worker %s whose guard is gone",
	supervise.Ignored:     "the list of former lives of worker %s cannot be used: none of them is replaced",
	supervise.Uncontained: "worker %s has no cgroup of its own, and needs none: it ends all that its tasks start; only where the worker and its guard are killed at the same moment may a process that hides remain",
	supervise.Swept:       "nothing is left of the former life of worker %s",
	supervise.Started:     "started the driver process of worker %s",
	supervise.Overdue:     "the driver process of worker %s is overdue: killing it and all it started",
	supervise.Blocked:     "processes of worker %s survive SIGKILL: no driver process follows before they are gone",
	supervise.Ended:       "the driver process of worker %s ended: another one follows",
	supervise.Delayed:     "the next driver process of worker %s starts after a pause, since the last ones did not live long",
	supervise.Unwritten:   "the lock file of worker %s could not be written",
}

// sentence describes an event of the guard.
func (g guarded) sentence(event supervise.Event) string {
	switch {
	case event.Kind == supervise.Waiting:
		who := ""
		if event.PID != 0 {
			who = fmt.Sprintf(" (pid %d)", event.PID)
		}
		return fmt.Sprintf("another worker named %s runs on this host%s with state_dir %s: this one waits for it to end; give it another --name", g.name, who, g.state)
	case event.Kind == supervise.Ended && event.Last:
		return fmt.Sprintf("the driver process of worker %s ended", g.name)
	}
	return fmt.Sprintf(guardSentences[event.Kind], g.name)
}

// sayGuard logs the events of a guard. It logs usual events at debug level.
func (e *env) sayGuard(g guarded, event supervise.Event) {
	sentence, fields := "guard: "+g.sentence(event), guardFields(event)
	switch event.Kind {
	case supervise.Uncontained, supervise.Freed:
		e.log.Info(sentence, fields...)
	case supervise.Started, supervise.Swept:
		e.log.Debug(sentence, fields...)
	case supervise.Ended:
		if event.Last && (event.Code == 0 || slices.Contains(finalExits, event.Code)) { // the driver process has printed why
			e.log.Debug(sentence, fields...)
			return
		}
		e.log.Warn(sentence, fields...)
	case supervise.Waiting, supervise.Evicted, supervise.Ignored, supervise.Overdue, supervise.Blocked, supervise.Delayed, supervise.Unwritten:
		e.log.Warn(sentence, fields...)
	}
}

// guardFields returns log fields for what is set in an event.
func guardFields(event supervise.Event) (fields []any) {
	add := func(set bool, field slog.Attr) {
		if set {
			fields = append(fields, field)
		}
	}
	add(event.PID != 0, slog.Int("pid", event.PID))
	add(event.Kind == supervise.Ended, slog.Int("code", event.Code))
	add(len(event.Workers) > 0, slog.String("workers", strings.Join(event.Workers, ",")))
	add(len(event.Left) > 0, slog.Any("left", event.Left))
	add(event.Took > 0, slog.Duration("took", event.Took.Round(time.Millisecond)))
	add(event.Wait > 0, slog.Duration("wait", event.Wait.Round(time.Millisecond)))
	switch {
	case event.Err == nil:
	case event.Kind == supervise.Uncontained: // not a failure
		fields = append(fields, slog.String("why", event.Err.Error()))
	default:
		fields = append(fields, slog.String("err", event.Err.Error()))
	}
	return fields
}
