package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/golden"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// at returns the time so many seconds after noon, in the local time zone.
func at(seconds float64) time.Time {
	return time.Date(2026, 11, 22, 12, 0, 0, 0, time.Local).Add(time.Duration(seconds * float64(time.Second)))
}

func failedPage() *runPage {
	three := 3
	return &runPage{
		now: at(200),
		run: &queue.Run{
			ID: 41, DAG: "etl", Version: 3, Generation: 2, State: "failed", Reason: "step load failed: exit 3", Tolerated: 1,
			Queue: "nightly", Priority: 5, Params: json.RawMessage(`{"day": "2026-11-20", "note": "two words", "limit": 10}`),
			Labels: map[string]string{"team": "data"}, Key: "etl-20", Trigger: "manual", Epoch: 2, SubmittedBy: "ana",
			CreatedAt: at(0), StartedAt: at(3), FinishedAt: at(130),
		},
		tasks: []queue.Task{
			{Step: "extract", Kind: "step", State: "succeeded", Reason: "ran", Attempt: 1, Worker: "w1", StartedAt: at(3), FinishedAt: at(4.25)},
			{Step: "cached", Kind: "step", State: "succeeded", Reason: "cached", Worker: "w1", StartedAt: at(4), FinishedAt: at(4)},
			{
				Step: "load", Kind: "step", State: "failed", Reason: "exit 3", ExitCode: &three, Attempt: 3, Worker: "w2",
				StartedAt: at(5), FinishedAt: at(129),
			},
			{Step: "resize", Kind: "foreach", State: "replaced", Reason: "replaced by resize~1", Attempt: 1, StartedAt: at(5), FinishedAt: at(6)},
			{Step: "resize", Item: "a b.png", Kind: "foreach", State: "succeeded", Reason: "ran", Attempt: 1, StartedAt: at(5), FinishedAt: at(5.5)},
			{Step: "resize~1", Kind: "replacement", State: "succeeded", Replaces: "resize", Attempt: 1, StartedAt: at(6), FinishedAt: at(7)},
			{Step: "report", Kind: "step", State: "upstream_failed", Reason: "upstream failed: load"},
			{Step: "@exit", Kind: "handler", State: "succeeded", Reason: "ran", Attempt: 1, StartedAt: at(129), FinishedAt: at(130)},
		},
		events: []queue.Event{{Kind: "lost", Worker: "w1", At: at(60)}, {Kind: "lost", Step: "load", Worker: "w2", At: at(61)}},
		tails:  map[int][]string{2: {"psql: connection refused", "is the server running?"}},
	}
}

func waitingPage(t *testing.T) *runPage {
	t.Helper()
	spec, err := dagspec.Parse("f.yaml", []byte(`
name: release
steps:
  - {id: ship, depends: [confirm, call], run: ship}
  - {id: confirm, action: approval, with: {prompt: ship it?}}
  - {id: call, retry_policy: {limit: 3}, run: call}
`))
	if err != nil {
		t.Fatal(err)
	}
	graph, err := spec.Graph()
	if err != nil {
		t.Fatal(err)
	}
	p := &runPage{
		now: at(75),
		dag: &queue.Definition{Spec: spec, Graph: graph},
		run: &queue.Run{
			ID: 7, DAG: "release", Version: 1, Generation: 1, State: "waiting", Reason: "step confirm: waits for approval by lead", Queue: "default",
			Params: json.RawMessage(`{}`), Trigger: "sql", Epoch: 1, Worker: "w1", SubmittedBy: "app", CreatedAt: at(0), StartedAt: at(0.1),
		},
		tasks: []queue.Task{
			{Step: "ship", Kind: "step", State: "pending"},
			{
				Step: "confirm", Kind: "step", State: "waiting", Reason: "waits for approval by lead", Attempt: 1, StartedAt: at(1),
				Approval: &queue.Question{
					Prompt: "Ship it?\nAll 3 checks passed.", Inputs: []dagspec.Param{{Name: "ticket", Type: "string", Required: true}, {Name: "note", Type: "string"}},
					Approvers: []string{"lead"}, MayDecide: true, Since: at(1),
				},
			},
			{Step: "call", Kind: "step", State: "retrying", Reason: "exit 1", Attempt: 2, StartedAt: at(2), NextAttemptAt: at(90)},
		},
	}
	runview.SortByGraph(p.tasks, graph, func(t *queue.Task) string { return t.Step })
	return p
}

func fanPage() *runPage {
	p := &runPage{
		now: at(9),
		run: &queue.Run{ID: 8, DAG: "fan", Version: 1, Generation: 1, State: "running", Queue: "default", CreatedAt: at(0), StartedAt: at(0), SubmittedBy: "app"},
		tasks: []queue.Task{
			{Step: "each", Kind: "foreach", State: "running", Attempt: 1, StartedAt: at(0)},
		},
	}
	for i := range 1000 {
		task := queue.Task{Step: "each", Item: fmt.Sprint(i), Kind: "foreach", State: "succeeded", Reason: "ran", Attempt: 1, StartedAt: at(1), FinishedAt: at(2)}
		switch i {
		case 500:
			task.State, task.Reason = "failed", "exit 1"
		case 900, 901:
			task.State, task.Reason, task.FinishedAt = "running", "", time.Time{}
		}
		p.tasks = append(p.tasks, task)
	}
	return p
}

// growingPage returns a page with a step of which few items have a row.
func growingPage() *runPage {
	p := fanPage()
	p.tasks = p.tasks[:15]
	p.tasks[0].Items = 200
	return p
}

func TestStatus_ShowsAllItems(t *testing.T) {
	t.Parallel()
	p := fanPage()
	p.all = true
	lines := splitLines(p.taskLines())
	if len(lines) != 1001 || !strings.Contains(lines[1], "500") || !strings.Contains(lines[1], "failed") {
		t.Errorf("%d lines, and below the step: %q", len(lines), lines[1])
	}
}

func TestStatus_IsAPageToRead(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]*runPage{"failed": failedPage(), "waiting": waitingPage(t), "fan": fanPage(), "growing": growingPage()} {
		golden.Equal(t, filepath.Join("testdata", "status", name+".txt"), page.String())
		page.painter = newPainter(true)
		golden.Equal(t, filepath.Join("testdata", "status", name+".ansi"), page.String())
	}
}

func TestStatus_ShowsNoControlBytesOfOthers(t *testing.T) {
	t.Parallel()
	evil := "\x1b[2Jx\r\n\u202e"
	p := failedPage()
	p.run.Reason, p.run.Key, p.run.SubmittedBy, p.run.Queue = evil, evil, evil, evil
	p.run.Labels = map[string]string{evil: evil}
	p.run.Params = json.RawMessage(`{"a": "\u001b[2J"}`)
	for i := range p.tasks {
		p.tasks[i].Reason, p.tasks[i].Worker, p.tasks[i].Item = evil+"!", evil, evil
	}
	p.tails[2] = runview.LastLines("ok\n" + evil)
	p.tasks[0].Approval = &queue.Question{Prompt: evil, Inputs: []dagspec.Param{{Name: evil, Type: "string", Required: true}}, Approvers: []string{evil}, MayDecide: true}
	p.events[0].Worker = evil
	if text := p.String(); strings.ContainsAny(text, "\x1b\r\u202e") {
		t.Errorf("control bytes in %q", text)
	}
}

// A user that may not decide gets no command that would be refused.
func TestStatus_HintsNoApprovalToThoseWhoMayNotGiveIt(t *testing.T) {
	t.Parallel()
	p := waitingPage(t)
	const command = "oarlock approve 7 confirm -i ticket=\n"
	if text := p.String(); !strings.Contains(text, command) {
		t.Errorf("no %q in\n%s", command, text)
	}
	for i := range p.tasks {
		if q := p.tasks[i].Approval; q != nil {
			q.MayDecide = false
		}
	}
	if text := p.String(); strings.Contains(text, "oarlock approve") || !strings.Contains(text, "waits for approval by lead") {
		t.Errorf("it hints what is refused, or does not say who decides:\n%s", text)
	}
}
