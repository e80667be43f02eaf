package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// jsonTimes is a schedule as `dag show --next` prints it.
type jsonTimes struct {
	Name     string      `json:"name"`
	Timing   string      `json:"timing"`
	Timezone string      `json:"timezone"`
	Next     []time.Time `json:"next"`
}

// runDAGNext lists the next times of the schedules of a DAG or of a file. For a file it does not ask the database.
func runDAGNext(ctx context.Context, e *env, args []string, n int) error {
	name, err := oneDAG("dag show", args)
	if err != nil {
		return err
	}
	if n < 1 || n > timesMax {
		return &usageError{msg: fmt.Sprintf("--next is from 1 to %d, not %d", timesMax, n)}
	}
	if name == stdinWord || hasDAGExtension(name) || strings.Contains(name, "/") {
		return e.fileNext(name, n)
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		_, spec, err := getDAG(ctx, store, name, 0)
		if err != nil {
			return err
		}
		schedules, err := store.Schedules(ctx, queue.ScheduleFilter{DAG: spec.Name, OfFile: true, Limit: queue.MaxPage})
		if err != nil {
			return err
		}
		listed := make([]jsonTimes, len(schedules))
		for i := range schedules {
			times, err := store.FireTimes(ctx, schedules[i].Key(), n)
			if err != nil {
				return err
			}
			listed[i] = timesJSON(&schedules[i].Schedule, times)
		}
		return e.sayTimes(spec.Name, listed)
	})
}

func (e *env) fileNext(name string, n int) error {
	file, err := e.readDAG(name)
	if err != nil {
		return err
	}
	if failed := invalidFiles([]*dagFile{file}); failed != nil {
		return e.reportInvalid([]*dagFile{file}, failed)
	}
	listed := []jsonTimes{}
	for i := range file.spec.Schedule {
		if s := &file.spec.Schedule[i]; s.Enabled {
			listed = append(listed, timesJSON(s, previewTimes(s, time.Now(), n)))
		}
	}
	return e.sayTimes(file.name, listed)
}

func timesJSON(s *dagspec.Schedule, times []time.Time) jsonTimes {
	j := jsonTimes{s.Name, runview.TimingText(s), s.Timezone, []time.Time{}}
	for _, t := range times {
		j.Next = append(j.Next, t.UTC())
	}
	return j
}

func (e *env) sayTimes(of string, listed []jsonTimes) error {
	paint, now := e.stdoutPaint(), time.Now()
	a := answer{object: listed, lines: []any{}}
	if len(listed) == 0 {
		e.remark("%s has no schedule", of)
	}
	for i, s := range listed {
		a.lines = append(a.lines, s)
		if i > 0 {
			a.text += "\n"
		}
		a.text += paint.bold(runview.InlineText(s.Name)) + "\n" + paint.comingTimes(s.Next, s.Timezone, now)
	}
	return e.say(a)
}
