package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/worker"
)

func nested(lists int) json.RawMessage {
	return json.RawMessage(strings.Repeat("[", lists) + strings.Repeat("]", lists))
}

func TestCheckOutputs_HoldsTheLimits(t *testing.T) {
	t.Parallel()
	task := &worker.Task{Body: &dagspec.Step{Outputs: []dagspec.Output{{Name: "j", Type: "json", Optional: true}, {Name: "s", Optional: true}}}}
	text := func(bytes int) string { return strings.Repeat("\n", bytes) } // two bytes each in JSON
	for name, tt := range map[string]struct {
		outputs map[string]any
		want    string // "": they pass
	}{
		"a text at the limit":      {map[string]any{"s": text(worker.MaxTextBytes)}, ""},
		"a text past it":           {map[string]any{"s": text(worker.MaxTextBytes + 1)}, "output s has 65537 bytes, at most 65536"},
		"an undeclared text":       {map[string]any{"x": text(worker.MaxTextBytes + 1)}, "output x has 65537 bytes"},
		"a text declared json":     {map[string]any{"j": text(worker.MaxJSONBytes), "s": nil}, ""},
		"a text declared json, +1": {map[string]any{"j": text(worker.MaxJSONBytes + 1)}, "output j has 1048577 bytes, at most 1048576"},
		"a list":                   {map[string]any{"s": []string{strings.Repeat("x", worker.MaxJSONBytes-4)}}, ""},
		"a list past it":           {map[string]any{"s": []string{strings.Repeat("x", worker.MaxJSONBytes-3)}}, "output s has 1048577 bytes"},
		"all together": {
			map[string]any{"j": text(worker.MaxJSONBytes), "s": "x"}, "the outputs have more than 1048576 bytes",
		},
		"NUL":             {map[string]any{"s": "a\x00b"}, "NUL"},
		"the name of NUL": {map[string]any{"s": `a\u0000b`}, ""},
		"nested":          {map[string]any{"j": nested(dagspec.MaxValueDepth - 1)}, ""},
		"nested deeper":   {map[string]any{"j": nested(dagspec.MaxValueDepth)}, "nested more than 500 deep"},
		"brackets":        {map[string]any{"j": strings.Repeat(`\"[{`, 600)}, ""},
	} {
		raw, err := json.Marshal(tt.outputs)
		if err != nil {
			t.Fatal(err)
		}
		err = task.CheckOutputs(dagrun.JSON(raw))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	if err := task.CheckOutputs(""); err != nil {
		t.Errorf("none: %v", err)
	}
}

// A body must give each declared output that is not optional, whatever kind of body it is.
func TestCheckOutputs_WantsWhatIsDeclared(t *testing.T) {
	t.Parallel()
	outputs := []dagspec.Output{{Name: "o", Optional: true}, {Name: "n"}}
	file := []dagspec.Output{{Name: "n", From: "file:report"}}
	for _, tt := range []struct {
		body    dagspec.Step
		outputs dagrun.JSON
		want    string
	}{
		{dagspec.Step{Run: "x", Outputs: outputs}, `{"n":1}`, ""},
		{dagspec.Step{Run: "x", Outputs: outputs}, `{"n":null}`, ""},
		{dagspec.Step{Run: "x", Outputs: outputs}, `{"o":1}`, "output n was not written: write n=… to $OARLOCK_OUTPUT, or declare it with optional: true"},
		{dagspec.Step{Command: "x", Outputs: file}, "", "output n was not written: write file:report, or declare it with optional: true"},
		{dagspec.Step{Action: "my.func", Outputs: outputs}, "", "output n was not written: return it from my.func, or declare it with optional: true"},
		{dagspec.Step{Run: "x"}, "", ""},
	} {
		err := (&worker.Task{Body: &tt.body}).CheckOutputs(tt.outputs)
		if got := fmt.Sprint(err); got != tt.want && (err != nil || tt.want != "") {
			t.Errorf("%s: %s, want %s", tt.outputs, got, tt.want)
		}
	}
}

// The limits of outputs that hold for commands hold for a Go function and for each item of a foreach too.
func TestOutputs_OfFunctionsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: d\nsteps:\n"+
		"  - {id: a, action: my.func, outputs: [n]}\n"+
		"  - {id: each, action: my.func, outputs: [n], foreach: {items: [x, y]}}\n")
	id := b.enqueue(t, "d")
	b.start(t, "w", func(c *worker.Config) {
		c.Executors["action:my.func"] = worker.Func(func(_ context.Context, task *worker.Task) (worker.Outputs, error) {
			if task.Item == "y" {
				return worker.Outputs{"n": "small"}, nil
			}
			return worker.Outputs{"n": strings.Repeat("x", worker.MaxTextBytes+1)}, nil
		})
	})
	b.await(t, id)
	tasks, err := b.Tasks(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		want := dagrun.KindOutput
		if task.Item == "y" {
			want = dagrun.KindNone
		}
		if task.Step == "each" && task.Item == "" {
			continue // the node
		}
		if string(task.FailureKind) != string(want) {
			t.Errorf("%s/%s: %s %q %s", task.Step, task.Item, task.State, task.FailureKind, task.Reason)
		}
	}
	if len(tasks) != 4 {
		t.Errorf("%d tasks", len(tasks))
	}
}

// A reason is stored, and shown to every user. It must hold no secret, whichever part of the worker or executor gives it.
func TestReason_HoldsNoSecret(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("pass word/1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := setup(t, "name: d\nsecrets: [{name: token, from: file, key: "+file+"}]\nsteps:\n"+
		"  - {id: error, action: my.func, continue_on: failed, secrets: [token]}\n  - {id: panic, action: my.func, secrets: all}\n"+
		"  - {id: none, action: my.func, continue_on: failed}\n  - {id: wait, action: wait, with: {http: {url: http://x}}}\n")
	id := b.enqueue(t, "d")
	b.start(t, "w", func(c *worker.Config) {
		c.Prober = prober(func() (bool, string, error) { return false, "", errors.New("no pass word/1") })
		c.Executors["action:my.func"] = worker.Func(func(_ context.Context, task *worker.Task) (worker.Outputs, error) {
			switch task.Step {
			case "panic":
				panic("with " + task.Secrets["token"])
			case "none":
				return nil, errors.New("it has " + task.Secrets["token"] + "pass word/1")
			}
			return nil, fmt.Errorf("Get http://x?t=pass+word%%2F1: %q", task.Secrets["token"])
		})
	})
	b.await(t, id)
	tasks, err := b.Tasks(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"error": `Get http://x?t=***: "***"`, "panic": "panic: with ***", "wait": "no ***", "none": "it has ***"}
	for _, task := range tasks {
		if task.Reason != want[task.Step] {
			t.Errorf("%s: %q, want %q", task.Step, task.Reason, want[task.Step])
		}
	}
}

// A task that fails before its body begins, since a reference has no value, gives its slot back: the next step takes the only one.
func TestConfig_AFailureBeforeTheBodyKeepsNoSlot(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: d\nsteps:\n"+
		"  - {id: none, result: {outputs: {x: null}}}\n"+
		"  - {id: bad, depends: [none], run: echo, env: {X: '${steps.none.outputs.x}'}}\n"+
		"  - {id: next, depends: [{step: bad, state: finished}], trigger_rule: all_done, action: my.func}\n")
	id := b.enqueue(t, "d")
	b.start(t, "w", func(c *worker.Config) {
		c.Slots = 1
		c.Executors["action:my.func"] = worker.Func(func(context.Context, *worker.Task) (worker.Outputs, error) { return nil, nil })
	})
	b.await(t, id)
	if got, want := b.states(t, id), "none=succeeded bad=failed next=succeeded"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
