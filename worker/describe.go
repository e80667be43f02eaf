package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/plainjson"
)

// describe returns the Task for the executor of an attempt, or of its publish. The secrets and the log are still missing: reveal
// and runBody add them. An error means that the configuration of the DAG or of the worker is wrong.
func (d *driver) describe(a dagrun.Action) (*Task, error) {
	spec, err := d.bodyOf(a.Task)
	if err != nil {
		return nil, err
	}
	scope := d.run.Scope(a.Task)
	t := &Task{
		Worker: d.life.idText, Run: int64(d.claim.Run), UID: d.claim.UID.String(), DAG: d.claim.DAG, Step: d.stepName(a.Task), Item: a.Task.Item, Attempt: a.Attempt, Publish: a.Publish,
		Fence: int64(d.claim.Epoch), Key: d.taskKey(a.Task), Body: spec, Now: make(chan struct{}), Traceparent: traceparent(d.claim.Traceparent),
		LogicalAt: d.claim.LogicalAt, Schedule: d.claim.Schedule, PreviousLogicalAt: d.claim.PreviousLogicalAt,
		claim: d.claim, id: a.Task, clock: d.clock, taken: d.run.OutputBytes(a.Task),
		mayLose: !a.Publish && d.losses[a.Task]+1 < d.def.Spec.MaxDrives,
	}
	if d.life.config.LocalFiles {
		t.Source = folderOf(d.sourcePath())
	}
	if c, ok := scope.Context().(dagspec.Context); ok {
		t.Params = c.Params
	}
	if t.Resolved, err = d.resolve(a, spec, scope); err != nil {
		return nil, err
	}
	if a.Publish {
		row, _ := d.run.Task(a.Task)
		t.Body, t.PublishTry = spec.Publish, row.PublishTries+1
	}
	t.Upstream = d.upstream(a.Task, scope)
	if d.stepName(a.Task)[0] == '@' {
		view := scope.Run()
		t.RunState, t.Failed = view.State.String(), view.Failed
	}
	return t, nil
}

// sourcePath returns the path of the file from which the run's DAG was put last. For the run that Self.Only names it returns
// Config.Source instead, unless that is empty: the same content may have been put from another file since.
func (d *driver) sourcePath() string {
	if c := &d.life.config; c.Source != "" && d.claim.Run == c.Self.Only {
		return c.Source
	}
	return d.def.Path
}

// traceparent returns the trace context that the application gave, or "" if it has a character that no header can hold.
func traceparent(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return text
}

// reveal reads the secrets that the task uses, and sets t.Secrets, t.hidden and the texts in t.Resolved. Secrets that the DAG
// declares and this task does not use are masked too. If the DAG declares none, reveal does nothing. An error is that of
// secretReader.read, and leaves the task as it was.
func (d *driver) reveal(ctx context.Context, t *Task) error {
	if len(t.Resolved.Declared) == 0 {
		return nil
	}
	values, err := d.life.secrets.read(ctx, t.Worker, t.Resolved.Secrets)
	if err != nil {
		return err
	}
	own := slices.Collect(maps.Values(values))
	t.hidden = slices.Concat(own, d.life.secrets.atHand(t.Resolved.Declared))
	t.Secrets = t.Resolved.Reveal(values)
	if address, _ := t.Resolved.With["url"].(string); t.Resolved.ShownURL != "" {
		t.hidden = append(t.hidden, urlParts(address, own)...)
	}
	return nil
}

// folderOf returns the folder of a file, or "" if there is no regular file at this path.
func folderOf(path string) string {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return filepath.Dir(path)
}

func (d *driver) bodyOf(id dagrun.TaskID) (*dagspec.Step, error) {
	if step := d.run.Spec(id); step != nil {
		if body, ok := step.Data.(*dagspec.Step); ok {
			return body, nil
		}
	}
	return nil, fmt.Errorf("task %s has no body that package dagspec made", d.def.Graph.TaskName(id))
}

func (d *driver) resolve(a dagrun.Action, body *dagspec.Step, scope dagrun.Scope) (*dagspec.Resolved, error) {
	if !a.Publish {
		return body.Resolve(scope)
	}
	row, _ := d.run.Task(a.Task)
	return body.ResolvePublish(scope, row.Outputs)
}

// stepName returns the name of a task's step, with the number of the replacement if the task is one: search~1.
func (d *driver) stepName(id dagrun.TaskID) string {
	name := d.def.Graph.StepName(id.Step)
	if id.Alt != 0 {
		name += "~" + strconv.Itoa(id.Alt)
	}
	return name
}

// taskKey returns a key that is the same in every attempt of a task and that no other task ever has. It holds the run's UID, because
// the number of a run may be given again after a restore.
func (d *driver) taskKey(id dagrun.TaskID) string {
	return "oarlock-" + d.claim.UID.String() + "-" + d.def.Graph.TaskName(id)
}

// parent is the JSON of a direct parent in $OARLOCK_UPSTREAM.
type parent struct {
	State   string          `json:"state"`
	Outputs json.RawMessage `json:"outputs"`
	Items   []parentItem    `json:"items,omitempty"`

	Replacements []parentReplacement `json:"replacements,omitempty"`
}

type parentItem struct {
	Item    string          `json:"item"`
	State   string          `json:"state"`
	Outputs json.RawMessage `json:"outputs"`

	Replacements []parentReplacement `json:"replacements,omitempty"`
}

type parentReplacement struct {
	Step    string          `json:"step"`
	State   string          `json:"state"`
	Outputs json.RawMessage `json:"outputs"`
}

// replacements returns the replacements of a step or item for the JSON of its parent.
func replacements(step string, v *dagrun.StepView) (list []parentReplacement) {
	for _, alt := range v.Replaced {
		list = append(list, parentReplacement{fmt.Sprintf("%s~%d", step, alt.Alt), alt.State.String(), object(alt.Outputs)})
	}
	return list
}

// upstream returns a function that encodes the states and outputs of a task's direct parents as a JSON object by step name. They
// are as they were when upstream was called. Only the call encodes, since most bodies never need it.
func (d *driver) upstream(id dagrun.TaskID, scope dagrun.Scope) func() ([]byte, error) {
	edges := d.def.Graph.Step(id.Step).Depends
	steps, items := make([]dagrun.StepView, len(edges)), make([][]dagrun.StepView, len(edges))
	for i, edge := range edges {
		steps[i], _ = scope.Step(edge.Step)
		items[i] = scope.Items(edge.Step)
	}
	return func() ([]byte, error) {
		parents := map[string]parent{}
		for i, edge := range edges {
			p := parent{State: steps[i].State.String(), Outputs: object(steps[i].Outputs), Replacements: replacements(edge.Step, &steps[i])}
			for k := range items[i] {
				item := &items[i][k]
				p.Items = append(p.Items, parentItem{item.Item, item.State.String(), object(item.Outputs), replacements(edge.Step, item)})
			}
			parents[edge.Step] = p
		}
		return plainjson.Compact(parents)
	}
}

func object(outputs dagrun.JSON) json.RawMessage {
	if outputs == "" {
		return json.RawMessage("{}")
	}
	return json.RawMessage(outputs)
}

// kindOf returns the key of Config.Executors for a body: process, or action:NAME.
func kindOf(body *dagspec.Step) string {
	if body.Action != "" {
		return "action:" + body.Action
	}
	return "process"
}
