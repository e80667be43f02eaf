package coretest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// compareTasks compares every task, and the run's own row as far as it is decided before a commit.
func (p *Pair) compareTasks() error {
	rows := map[dagrun.TaskID]dagrun.TaskRecord{}
	for t := range p.Core.Tasks() {
		rows[t.ID] = t
	}
	for _, c := range p.Model.sorted() {
		row, ok := rows[c.ID]
		delete(rows, c.ID)
		if p.Model.isHandler(c) && !begun(c) && (!ok || p.Model.phase() == "") {
			continue // the task may never become part of this run
		}
		if c.Publishing || c.PublishTries > 0 || c.Reason == "" || c.Reason == anyWords {
			c.Reason = row.Reason // the language does not fix the text of the reason
		}
		if want, got := p.printTask(c.TaskRecord), p.printTask(row); !ok || want != got {
			return fmt.Errorf("task %s\n  core  %s\n  model %s", p.Model.name(c), got, want)
		}
	}
	for id := range rows {
		return fmt.Errorf("task %s: only the core has it", p.Graph.TaskName(id))
	}
	return nil
}

// printTask spells the part of a row that must agree: all that the language or the contract defines.
func (p *Pair) printTask(t dagrun.TaskRecord) string {
	if (p.Model.held() || t.ID.Step >= p.Model.plain) && t.State == dagrun.TaskReady {
		t.State = dagrun.TaskPending // the state is derived, and no difference can follow from it
	}
	node := t.ID.Item == "" && t.ID.Alt == 0 && p.Graph.Step(t.ID.Step).Foreach != nil
	var b strings.Builder
	fmt.Fprintf(&b, "%s attempt=%d", t.State, t.Attempt)
	if t.State == dagrun.TaskPending || t.State == dagrun.TaskReady {
		fmt.Fprintf(&b, " started=%v retries=%d/%d", t.StartedAt != 0, t.Retries, t.PublishTries)
		return b.String()
	}
	if strings.HasPrefix(t.Reason, "fail fast: ") {
		t.Reason = "fail fast" // if several tasks fail in one event, any of them may count as the first
	}
	if t.State != dagrun.TaskWaiting {
		t.Ref = ""
	}
	if t.State.Terminal() {
		t.Request = 0
	}
	fmt.Fprintf(&b, " tolerated=%v retries=%d/%d request=%s marked=%s gen=%d", t.Tolerated, t.Retries, t.PublishTries, t.Request, t.Marked, t.Generation)
	if !node {
		if !t.State.Terminal() {
			fmt.Fprintf(&b, " attemptAt=%v", t.AttemptAt != 0)
		}
		if t.State.Terminal() && t.State != dagrun.TaskCanceled {
			fmt.Fprintf(&b, " kind=%s exit=%d/%v signal=%d", t.Kind, t.ExitCode, t.HasExit, t.Signal)
		}
		if t.Kind != dagrun.KindConfig && (t.State.Terminal() || t.State == dagrun.TaskRetrying || t.State == dagrun.TaskPaused) {
			fmt.Fprintf(&b, " reason=%q", t.Reason)
		}
	}
	if t.State == dagrun.TaskSucceeded || t.State == dagrun.TaskFinishing {
		fmt.Fprintf(&b, " outputs=%s key=%s", t.Outputs, t.CacheKey)
	}
	if !t.State.Terminal() {
		fmt.Fprintf(&b, " next=%d deadline=%d ref=%s publishing=%v", t.NextAt, t.Deadline, t.Ref, t.Publishing)
	}
	if !t.State.Terminal() || (t.State == dagrun.TaskFailed && t.Attempt > 0) {
		fmt.Fprintf(&b, " started=%d", t.StartedAt)
	}
	fmt.Fprintf(&b, " finished=%d", t.FinishedAt)
	if t.Growth != nil {
		fmt.Fprintf(&b, " growth=%+v", *t.Growth)
	}
	return b.String()
}

// compareReady compares what core and model want done.
func (p *Pair) compareReady(ready dagrun.Ready) error {
	for _, check := range []func(dagrun.Ready) error{p.compareWants, p.compareActions, p.compareAttempts, p.compareDecisions, p.compareEnd} {
		if err := check(ready); err != nil {
			return err
		}
	}
	return p.compareRun(ready)
}

func (p *Pair) compareWants(ready dagrun.Ready) error {
	if ready.Result != nil {
		return nil // BUG filed
	}
	var core, model []string
	for id := range p.offered(ready) {
		core = append(core, p.Graph.TaskName(id))
	}
	for _, id := range p.Model.Wants() {
		model = append(model, p.Graph.TaskName(id))
	}
	if err := same("wants", core, model); err != nil {
		return err
	}
	for i, w := range ready.Wants[min(1, len(ready.Wants)):] {
		if v := ready.Wants[i]; v.Priority < w.Priority || (v.Priority == w.Priority && v.Since > w.Since) {
			return fmt.Errorf("wants out of order: %+v before %+v", v, w)
		}
	}
	return nil
}

func same(what string, core, model []string) error {
	slices.Sort(core)
	slices.Sort(model)
	core, model = slices.Compact(core), slices.Compact(model)
	if slices.Equal(core, model) {
		return nil
	}
	return fmt.Errorf("%s\n  core  %q\n  model %q", what, core, model)
}

func (p *Pair) compareActions(ready dagrun.Ready) error {
	return same("actions", p.printActions(ready.Actions), p.printActions(p.Model.Wanted()))
}

func (p *Pair) printActions(actions []dagrun.Action) []string {
	var out []string
	for _, a := range actions {
		attempt := a.Attempt
		if a.Kind == dagrun.ActCancelChild || a.Kind == dagrun.ActProbe {
			attempt = 0
		}
		out = append(out, fmt.Sprintf("%s %s#%d publish=%v cause=%s now=%v ref=%s key=%s", a.Kind, p.Graph.TaskName(a.Task), attempt, a.Publish, a.Cause, a.Now, a.Ref, a.Key))
	}
	return out
}

func (p *Pair) compareAttempts(ready dagrun.Ready) error {
	for i, a := range p.Model.Attempts { // either of the two is right for a skipped attempt
		for _, b := range ready.Records.Attempts {
			if a.State == dagrun.TaskSkipped && a.ID == b.ID && a.Attempt == b.Attempt {
				p.Model.Attempts[i].State = b.State
			}
		}
	}
	show := func(list []dagrun.AttemptRecord) []string {
		var out []string
		for _, a := range list {
			if a.State == dagrun.TaskCanceled {
				a.ExitCode, a.HasExit, a.Signal = 0, false, 0 // of the body or of the publish: the language does not say
			}
			out = append(out, fmt.Sprintf("%s#%d gen=%d %s kind=%s exit=%d/%v signal=%d %d-%d", p.Graph.TaskName(a.ID), a.Attempt,
				a.Generation, a.State, a.Kind, a.ExitCode, a.HasExit, a.Signal, a.StartedAt, a.FinishedAt))
		}
		return out
	}
	var kept []dagrun.AttemptRecord
	for _, a := range slices.Concat(ready.Records.Attempts, p.Model.Attempts) {
		kept = append(kept, p.Kept.Attempts[Try{a.ID, a.Attempt}])
	}
	old := show(kept) // the core may send a stored row again
	again := func(s string) bool { return slices.Contains(old, s) }
	core := slices.DeleteFunc(show(ready.Records.Attempts), again)
	return same("attempts", core, slices.DeleteFunc(show(p.Model.Attempts), again))
}

func (p *Pair) compareDecisions(ready dagrun.Ready) error {
	show := func(list []dagrun.Decision) []string {
		var out []string
		for _, d := range list {
			out = append(out, fmt.Sprintf("%d %s", d.ID, d.Outcome))
		}
		return out
	}
	for _, d := range ready.Records.Controls {
		if d.Outcome == dagrun.Refused && d.Message == "" {
			return fmt.Errorf("control %d is refused without a word", d.ID)
		}
	}
	return same("decisions", show(ready.Records.Controls), show(p.Model.Decisions))
}

func (p *Pair) compareEnd(ready dagrun.Ready) error {
	leave, verdict := p.Model.proposal()
	show := func(l *dagrun.Leave, v *dagrun.Verdict) string {
		switch {
		case v != nil:
			return fmt.Sprintf("verdict %s tolerated=%d", v.State, v.Tolerated)
		case l != nil:
			return fmt.Sprintf("leave %+v", *l)
		}
		return "goes on"
	}
	if core, model := show(ready.Leave, ready.Result), show(leave, verdict); core != model {
		return fmt.Errorf("end\n  core  %s\n  model %s", core, model)
	}
	if verdict != nil && verdict.Reason != "" && verdict.Reason != ready.Result.Reason && !strings.Contains(verdict.Reason, ": config") {
		return fmt.Errorf("reason of the run\n  core  %q\n  model %q", ready.Result.Reason, verdict.Reason)
	}
	if verdict == nil && leave == nil && ready.WakeAt != p.Model.WakeAt() {
		return fmt.Errorf("wake at\n  core  %d\n  model %d", ready.WakeAt, p.Model.WakeAt())
	}
	return nil
}

// compareRun compares the run's row as it will be stored.
func (p *Pair) compareRun(ready dagrun.Ready) error {
	if !p.begun {
		return nil
	}
	core := p.Kept.Run
	if ready.Records.Run != nil {
		core = *ready.Records.Run
	}
	show := func(r dagrun.RunRecord) string {
		if !p.Model.timeoutCounts() {
			r.Deadline = 0 // the deadline has no effect any more
		}
		return fmt.Sprintf("%s gen=%d ending=%s paused=%q started=%d deadline=%d left=%d wake=%d",
			r.State, r.Generation, r.Ending, r.PausedBy, r.StartedAt, r.Deadline, r.Left, r.WakeAt)
	}
	if c, m := show(core), show(p.Model.Run()); c != m {
		return fmt.Errorf("run row\n  core  %s\n  model %s", c, m)
	}
	return p.compareCounts(core.Counts, ready)
}

// leftOut returns the handlers that have a row and had no turn. The last batch of a run ends these rows, too.
func (p *Pair) leftOut(ready dagrun.Ready) (ids []dagrun.TaskID) {
	for _, c := range p.Model.sorted() {
		_, kept := p.Kept.Tasks[c.ID]
		written := slices.ContainsFunc(ready.Records.Tasks, func(t dagrun.TaskRecord) bool { return t.ID == c.ID })
		if p.Model.isHandler(c) && !c.State.Terminal() && (kept || written) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func (p *Pair) compareCounts(c dagrun.Counts, ready dagrun.Ready) error {
	if sum := c.Open + c.Succeeded + c.Failed + c.Skipped + c.UpstreamFailed + c.Canceled + c.Replaced; sum != c.Total {
		return fmt.Errorf("counts do not add up: %+v", c)
	}
	if ready.Result == nil {
		return nil
	}
	left := p.leftOut(ready)
	for _, id := range left {
		if !slices.ContainsFunc(ready.Records.Tasks, func(t dagrun.TaskRecord) bool { return t.ID == id && t.State == dagrun.TaskSkipped }) {
			return fmt.Errorf("the run ends, and the row of %s does not", p.Graph.TaskName(id))
		}
	}
	var m dagrun.Counts
	count := map[dagrun.State]*int{
		dagrun.TaskSucceeded: &m.Succeeded, dagrun.TaskFailed: &m.Failed, dagrun.TaskSkipped: &m.Skipped,
		dagrun.TaskUpstreamFailed: &m.UpstreamFailed, dagrun.TaskCanceled: &m.Canceled, dagrun.TaskReplaced: &m.Replaced,
	}
	for _, t := range p.Model.cells {
		if n := count[t.State]; n != nil {
			*n++
			m.Total++
		}
	}
	m.Total, m.Skipped = m.Total+len(left), m.Skipped+len(left)
	if c != m {
		return fmt.Errorf("counts\n  core  %+v\n  model %+v", c, m)
	}
	return nil
}
