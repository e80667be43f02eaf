package integration

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// show prints the run and its tasks.
func (s *scenario) show(t *testing.T) {
	t.Helper()
	r, err := s.Get(t.Context(), s.run)
	if err != nil {
		t.Fatal(err)
	}
	line := "run " + r.State
	if r.Generation > 1 {
		line += fmt.Sprintf(" generation=%d", r.Generation)
	}
	if r.Tolerated > 0 {
		line += fmt.Sprintf(" tolerated=%d", r.Tolerated)
	}
	s.tell("%s", withReason(line, r.Reason))
	for _, task := range s.tasks(t) {
		s.tell("%s", taskLine(&task))
	}
}

func withReason(line, reason string) string {
	if reason == "" {
		return line
	}
	return line + ": " + reason
}

func taskLine(task *queue.Task) string {
	line := nameOf(task) + " " + task.State
	if task.FailureKind != "" {
		line += " kind=" + task.FailureKind
	}
	if task.ExitCode != nil && *task.ExitCode != 0 && task.State != "canceled" { // how far a canceled task had got differs
		line += fmt.Sprintf(" exit=%d", *task.ExitCode)
	}
	if task.Attempt > 1 {
		line += fmt.Sprintf(" attempt=%d", task.Attempt)
	}
	if outputs := string(task.Outputs); outputs != "{}" {
		line += " " + clipped(outputs)
	}
	return withReason(line, task.Reason)
}

// clipped shortens a text to what a person can read.
func clipped(text string) string {
	const most = 300
	if len(text) > most {
		return text[:most/10] + "…"
	}
	return text
}

// log prints the log of a task, once its attempt ended.
func (s *scenario) log(t *testing.T, args string) {
	t.Helper()
	var text string
	until(t, "the end of the log of "+args, func() (over bool) {
		text, over = s.read(t, args)
		return over
	})
	for line := range strings.Lines(text) {
		s.tell("log %s| %s", args, clipped(strings.TrimSuffix(line, "\n")))
	}
}

// read returns the log so far of a task, or of one attempt of it.
func (s *scenario) read(t *testing.T, name string) (text string, over bool) {
	t.Helper()
	name, nth, _ := strings.Cut(name, "#")
	attempt, _ := strconv.Atoi(nth)
	step, item, _ := strings.Cut(name, "/")
	chunks, err := s.ReadLogs(t.Context(), queue.LogQuery{Run: s.run, Step: step, Item: item, Attempt: attempt})
	if err != nil {
		t.Fatal(err)
	}
	for i := range chunks {
		text += string(chunks[i].Data)
	}
	return text, len(chunks) > 0 && chunks[len(chunks)-1].Final
}

// attempts prints the attempts that later ones superseded.
func (s *scenario) attempts(t *testing.T) {
	t.Helper()
	all, err := s.Attempts(t.Context(), s.run)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		s.tell("attempt %s", withReason(fmt.Sprintf("%s#%d generation=%d %s %s", nameOf(&queue.Task{Step: a.Step, Item: a.Item}), a.Attempt, a.Generation, a.State, a.FailureKind), a.Reason))
	}
}

// await waits for the end of a run and prints nothing.
func (s *scenario) await(t *testing.T, run queue.RunID) {
	t.Helper()
	start := time.Now()
	s.house.await(t, run)
	if took := time.Since(start); took > time.Second {
		t.Logf("waited %v for the end", took.Round(time.Millisecond))
	}
}
