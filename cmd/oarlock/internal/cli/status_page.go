package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/graphview"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	maxItemsShown   = 12 // of one foreach step; how many others there are is said
	hintedApprovals = 5  // of one run
)

// runState paints the state of a run.
func (p painter) runState(state string) string {
	switch state {
	case "succeeded":
		return p.good(state)
	case "failed":
		return p.bad(state)
	case "waiting", "paused", "canceled":
		return p.warn(state)
	case "running":
		return p.note(state)
	}
	return state
}

// String is the page: the run, its tasks, what to type next.
func (p *runPage) String() string {
	var b strings.Builder
	b.WriteString(p.fold(p.headline(), 0) + "\n")
	if reason := shown(p.run.Reason); reason != "" && !p.starting() {
		b.WriteString(p.fold(reason, 0) + "\n")
	}
	b.WriteString("\n" + p.factLines() + "\n")
	b.WriteString(p.taskLines())
	if next := p.next(); len(next) > 0 {
		b.WriteString("\n" + p.dim("next") + "\n")
		for _, command := range next {
			b.WriteString("  " + command + "\n") // as it is, to be copied
		}
	}
	return b.String()
}

// starting says that the run's own worker is on its way: that nobody else serves it is no news.
func (p *runPage) starting() bool {
	return p.watched && p.run.State == "queued" && p.run.Epoch == 0 && isHere(p.run)
}

func (p *runPage) headline() string {
	r := p.run
	text := fmt.Sprintf("%s  %s %s  %s", p.bold(fmt.Sprintf("run %d", r.ID)), r.DAG, p.dim(fmt.Sprintf("version %d", r.Version)), p.runState(r.State))
	switch {
	case r.StartedAt.IsZero():
	case r.Over():
		text += p.dim(" after " + span(r.FinishedAt.Sub(r.StartedAt)))
	default:
		text += p.dim(" for " + span(p.now.Sub(r.StartedAt)))
	}
	if r.Tolerated > 0 {
		text += p.warn(fmt.Sprintf("  %s tolerated", count(r.Tolerated, "failure")))
	}
	return text
}

// facts are what is known of the run, and nothing that is not.
func (p *runPage) facts() (rows [][]string) {
	r := p.run
	fact := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{p.dim(name), value})
		}
	}
	fact("params", p.params())
	labels := maps.Clone(r.Labels)
	if isHere(r) {
		delete(labels, hereLabel)
	}
	fact("labels", labelText(labels))
	fact("key", shown(r.Key))
	asked := localTime(&r.CreatedAt) + " by " + shown(r.SubmittedBy)
	if r.Trigger != "sql" && r.Trigger != "" {
		asked += ", " + r.Trigger
	}
	fact("asked", asked)
	fact("schedule", p.schedule())
	fact("queue", printable(p.lane()))
	fact("started", p.started())
	fact("driven", p.drivers())
	if r.Generation > 1 {
		fact("generation", fmt.Sprintf("%d: it was retried", r.Generation))
	}
	if r.Parent != 0 {
		fact("parent", fmt.Sprintf("run %d", r.Parent))
	}
	if r.RetryOf != 0 {
		fact("retry of", fmt.Sprintf("run %d", r.RetryOf))
	}
	if counts := p.counts(); len(p.tasks) > maxItemsShown {
		fact("tasks", fmt.Sprintf("%d: %s", len(p.tasks), counts))
	}
	return rows
}

// params are those that were given, and after them the defaults of the others.
func (p *runPage) params() string {
	text := paramText(p.run.Params)
	var given map[string]json.RawMessage
	if p.dag == nil || json.Unmarshal(p.run.Params, &given) != nil {
		return text
	}
	defaults := map[string]any{}
	for i := range p.dag.Spec.ParamDefs {
		def := &p.dag.Spec.ParamDefs[i]
		if _, ok := given[def.Name]; !ok && def.Default != nil {
			defaults[def.Name] = def.Default
		}
	}
	if len(defaults) == 0 {
		return text
	}
	return strings.TrimPrefix(text+"  "+p.dim("by default "+paramText(json.RawMessage(compactJSON(defaults)))), "  ")
}

func (p *runPage) lane() string {
	switch {
	case p.run.Priority != 0:
		return fmt.Sprintf("%s, priority %d", p.run.Queue, p.run.Priority)
	case p.run.Queue != "default":
		return p.run.Queue
	}
	return ""
}

// schedule says which schedule made the run, and for when: nightly, for 2026-11-20 03:30 Europe/Paris, late by 2.0s.
func (p *runPage) schedule() string {
	r := p.run
	if r.Schedule == "" {
		return ""
	}
	text := shown(r.Schedule) + ", for "
	if p.made == nil {
		return text + localTime(&r.LogicalAt)
	}
	text += wallTime(r.LogicalAt, p.made.Timezone) + " " + p.made.Timezone
	due := r.LogicalAt.Add(p.made.Jitter.Std()) // at the latest
	if late := r.CreatedAt.Sub(due); late >= time.Second && r.Trigger == "schedule" {
		text += ", late by " + span(late)
	}
	return text
}

func (p *runPage) started() string {
	r := p.run
	if r.StartedAt.IsZero() {
		return ""
	}
	text := localTime(&r.StartedAt)
	if waited := r.StartedAt.Sub(later(r.CreatedAt, r.RunAt)); waited >= time.Second && r.Generation <= 1 {
		text += " after " + span(waited) + " in the queue"
	}
	if r.Over() {
		text += ", ended " + localTime(&r.FinishedAt)
	}
	return text
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// drivers says who drives the run, or did, and who was lost with it.
func (p *runPage) drivers() string {
	var parts []string
	if worker := driverOf(p.run, p.tasks); worker != "" {
		parts = append(parts, "by "+shown(worker))
	}
	if p.run.Epoch > 1 {
		parts = append(parts, fmt.Sprintf("drive %d", p.run.Epoch))
	}
	for _, e := range p.events {
		if e.Kind == "lost" && e.Step == "" {
			parts = append(parts, fmt.Sprintf("worker %s was lost at %s", orUnnamed(e.Worker), e.At.Local().Format(time.TimeOnly)))
		}
	}
	return strings.Join(parts, ", ")
}

func orUnnamed(worker string) string {
	if worker == "" {
		return "(unknown)"
	}
	return shown(worker)
}

// counts is how many tasks there are in each state, in the order of urgency.
func (p *runPage) counts() string { return countStates(p.tasks) }

func countStates(tasks []queue.Task) string {
	var order, parts []string
	number := map[string]int{}
	for i := range tasks {
		state := tasks[i].State
		if number[state]++; number[state] == 1 {
			order = append(order, state)
		}
	}
	slices.Sort(order)
	for _, state := range order {
		parts = append(parts, fmt.Sprintf("%d %s", number[state], state))
	}
	return strings.Join(parts, ", ")
}

// taskLines has a line for each task, and below those that failed what they said last.
func (p *runPage) taskLines() string {
	if p.rows > 0 {
		return p.fewTasks()
	}
	var rows [][]string
	var below [][]string // lines behind each row, which take no part in the alignment
	add := func(row, lines []string) {
		rows, below = append(rows, row), append(below, lines)
	}
	for i := 0; i < len(p.tasks); {
		n := p.itemsFrom(i)
		if n == 0 {
			add(p.taskRow(&p.tasks[i]), append(p.asked(&p.tasks[i]), p.quoted(p.tails[i])...))
			i++
			continue
		}
		for _, at := range p.shownItems(i, n) {
			add(p.taskRow(&p.tasks[at]), append(p.asked(&p.tasks[at]), p.quoted(p.tails[at])...))
		}
		if n > maxItemsShown {
			below[len(below)-1] = append(below[len(below)-1], p.dim("    … "+p.hiddenItems(i, n)))
		}
		i += n
	}
	var b strings.Builder
	for i, line := range p.alignTasks(rows) {
		b.WriteString(line + "\n")
		for _, quoted := range below[i] {
			b.WriteString(p.fold(quoted, width(tailMark)) + "\n")
		}
	}
	return b.String()
}

// itemsFrom counts the items of one foreach step from index i on.
func (p *runPage) itemsFrom(i int) int {
	n := 0
	for i+n < len(p.tasks) && p.tasks[i+n].Item != "" && stepOf(p.tasks[i+n].Step) == stepOf(p.tasks[i].Step) {
		n++
	}
	return n
}

// shownItems are the most telling items, in their order.
func (p *runPage) shownItems(from, n int) []int {
	at := make([]int, n)
	for k := range at {
		at[k] = from + k
	}
	if n <= maxItemsShown {
		return at
	}
	slices.SortStableFunc(at, func(a, b int) int {
		return graphview.Urgency(p.tasks[a].State) - graphview.Urgency(p.tasks[b].State)
	})
	at = at[:maxItemsShown]
	slices.Sort(at)
	return at
}

func (p *runPage) hiddenItems(from, n int) string {
	shown := p.shownItems(from, n)
	var hidden []queue.Task
	for k := from; k < from+n; k++ {
		if !slices.Contains(shown, k) {
			hidden = append(hidden, p.tasks[k])
		}
	}
	return fmt.Sprintf("%d more of %s: %s (all: oarlock status %d -o json)", len(hidden), stepOf(p.tasks[from].Step), countStates(hidden), p.run.ID)
}

func (p *runPage) taskRow(t *queue.Task) []string {
	glyph, sgr := graphview.Sign(t.State)
	indent, name := "  ", t.Step
	switch {
	case t.Item != "" && t.Kind == "replacement":
		indent, name = "      ", t.Step+"/"+t.Item
	case t.Item != "":
		indent, name = "    ", t.Item
	case t.Kind == "replacement":
		indent = "    "
	}
	row := []string{indent + p.paint(sgr, glyph) + " " + shown(name), p.paint(sgr, t.State), p.dim(p.taskTime(t)), ""}
	row[3] = p.taskNote(t)
	return row
}

func (p *runPage) taskTime(t *queue.Task) string {
	switch {
	case t.StartedAt.IsZero():
		return ""
	case t.FinishedAt.IsZero():
		return span(p.now.Sub(t.StartedAt))
	}
	return span(t.FinishedAt.Sub(t.StartedAt))
}

// taskNote says what is not usual about a task.
func (p *runPage) taskNote(t *queue.Task) string {
	var parts []string
	if t.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", t.Attempt))
	}
	if t.Reason != "" && t.Reason != "ran" && t.Reason != p.run.Reason {
		parts = append(parts, shown(t.Reason))
	}
	if !t.NextAttemptAt.IsZero() && t.FinishedAt.IsZero() {
		parts = append(parts, "next at "+t.NextAttemptAt.Local().Format(time.TimeOnly))
	}
	text := strings.Join(parts, ", ")
	if line := p.lastLine(t); line != "" {
		text = strings.TrimPrefix(text+"  "+p.dim(line), "  ")
	}
	if state, err := dagrun.ParseState(t.State); err == nil && (state == dagrun.TaskSucceeded || state == dagrun.TaskPending) {
		return p.dim(text)
	}
	return text
}

// quoted sets off what a task said.
func (p *runPage) quoted(lines []string) []string {
	var quoted []string
	for _, l := range lines {
		quoted = append(quoted, p.dim(tailMark+graphview.Isolate(l)))
	}
	return quoted
}

// next are the commands that one may want to type now.
func (p *runPage) next() []string {
	var next []string
	say := func(format string, args ...any) { next = append(next, fmt.Sprintf(format, args...)) }
	id, approvals := p.run.ID, 0
	for i := range p.tasks {
		t := &p.tasks[i]
		switch {
		case t.State == "failed" && t.Attempt > 0 && hasLog(t) && len(next) < tailTasks:
			say("oarlock logs %d %s", id, shellWord(taskArg(t)))
		case t.Approval != nil && t.Approval.MayDecide && approvals < hintedApprovals:
			approvals++
			next = append(next, approveCommand(id, taskArg(t), t.Approval))
		case t.State == "paused" && p.run.State != "paused" && len(next) < tailTasks:
			say("oarlock resume %d %s", id, shellWord(taskArg(t)))
		}
	}
	switch state := p.run.State; {
	case (state == "failed" || state == "canceled") && isHere(p.run):
		say("oarlock retry %d && oarlock worker --only %d", id, id)
	case state == "failed" || state == "canceled":
		say("oarlock retry %d", id)
	case state == "queued" && isHere(p.run) && !p.watched:
		say("oarlock worker --only %d", id)
	case state == "paused":
		say("oarlock resume %d", id)
	case !p.run.Over() && !p.watched:
		say("oarlock status %d -w", id)
	}
	return next
}

// hasLog tells tasks that execute from foreach steps, whose items do.
func hasLog(t *queue.Task) bool { return t.Kind != "foreach" || t.Item != "" }

// taskArg is a task as commands take it: load, load~1, resize/a.png.
func taskArg(t *queue.Task) string {
	if t.Item != "" {
		return t.Step + "/" + t.Item
	}
	return t.Step
}

// shellWord quotes what a shell would take apart.
func shellWord(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./~@:+,=%") == "" && !strings.HasPrefix(word, "~") {
		return word
	}
	return "'" + strings.ReplaceAll(printable(word), "'", `'\''`) + "'"
}
