package cli

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/oarlock-dev/oarlock/worker/guard"
)

// guardSentences say what a guard tells.
var guardSentences = map[guard.Kind]string{
	guard.Waiting:     "another worker named %s runs here with this state folder: waiting for its end; --name gives this one another",
	guard.Evicted:     "killed the process of worker %s whose guard is gone",
	guard.Ignored:     "the list of former lives of worker %s cannot be used: none of them is replaced",
	guard.Uncontained: "worker %s has no cgroup: nothing escapes its guard but what outlives the guard's own death",
	guard.Swept:       "nothing is left of the former life of worker %s",
	guard.Started:     "started the process of worker %s",
	guard.Overdue:     "the process of worker %s is overdue: killing it with all it started",
	guard.Blocked:     "processes of worker %s survive SIGKILL: none follows before they are gone",
	guard.Ended:       "the process of worker %s ended",
	guard.Delayed:     "the next process of worker %s starts after a pause",
	guard.Unwritten:   "the lock file of worker %s could not be written",
}

// sayGuard logs what the guard of the worker sees; what is usual only for those who want to know everything.
func (e *env) sayGuard(name string, event guard.Event) {
	sentence := "guard: " + fmt.Sprintf(guardSentences[event.Kind], name)
	fields := guardFields(event)
	switch event.Kind {
	case guard.Uncontained:
		e.log.Info(sentence, fields...)
	case guard.Started, guard.Swept:
		e.log.Debug(sentence, fields...)
	case guard.Ended:
		if event.Code == 0 || slices.Contains(finalExits, event.Code) { // that process said why
			e.log.Debug(sentence, fields...)
			return
		}
		e.log.Warn(sentence, fields...)
	case guard.Waiting, guard.Evicted, guard.Ignored, guard.Overdue, guard.Blocked, guard.Delayed, guard.Unwritten:
		e.log.Warn(sentence, fields...)
	}
}

// guardFields are what is set of an event.
func guardFields(event guard.Event) (fields []any) {
	add := func(set bool, field slog.Attr) {
		if set {
			fields = append(fields, field)
		}
	}
	add(event.PID != 0, slog.Int("pid", event.PID))
	add(event.Kind == guard.Ended, slog.Int("code", event.Code))
	add(len(event.Workers) > 0, slog.String("workers", strings.Join(event.Workers, ",")))
	add(len(event.Left) > 0, slog.Any("left", event.Left))
	add(event.Took > 0, slog.Duration("took", event.Took))
	add(event.Wait > 0, slog.Duration("wait", event.Wait))
	if event.Err != nil {
		fields = append(fields, slog.String("err", event.Err.Error()))
	}
	return fields
}
