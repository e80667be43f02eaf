package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/graphview"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

func newStatusCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "show a run: its steps, its failures, the reason it waits, and the next command",
		ArgsUsage: "RUN",
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "follow the run to its end, and exit with its status"},
			&cli.BoolFlag{Name: "all", Usage: "show a line for each item of a step: failed items first, then items under way"},
			&cli.StringFlag{Name: timeoutFlag, Usage: "with -w: stop waiting after this `DURATION`; the run goes on"},
		}, progressFlags("live, plain or none")...),
		Description: manual{
			about: `RUN is a number or @latest. Steps stand in the order of the graph, with items, replacements and handlers. With -w, -o
json prints one object at the end, and -o jsonl one for each change. Submitters see their own runs.
After an outage of the database, -w does not report for 10 s that a worker gives no sign of life.
` + progressAbout,
			examples: []string{
				"oarlock status 41",
				"oarlock status @latest -w",
				"oarlock status 41 --all | less",
				"oarlock status 41 -o json | jq -r '.tasks[] | select(.state == \"failed\") | .step'",
			},
			exits: []exitNote{
				{exitOK, "the run was shown, whatever its state; with -w: it succeeded"},
				usageNote,
				{exitNotFound, "the run does not exist, or it is not yours"},
				unreachableNote,
				settingsNote,
				{exitRunFailed, "-w: the run failed"},
				{exitRunCanceled, "-w: the run was canceled"},
				{exitTimeout, "-w: the run did not end in time; it goes on"},
			},
		}.String(),
		Action: func(c *cli.Context) error {
			how, err := e.readWaiting(c, "watch", true)
			if err != nil {
				return err
			}
			how.all = c.Bool("all")
			return runStatus(c.Context, e, c.Args().Slice(), c.Bool("watch"), how)
		},
	}
}

func runStatus(ctx context.Context, e *env, args []string, watch bool, how waiting) error {
	arg, err := oneRun("status", args)
	if err != nil {
		return err
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		id, err := arg.find(ctx, store)
		if err != nil {
			return err
		}
		if watch {
			return e.awaitRun(ctx, store, id, how)
		}
		page, err := e.readPage(ctx, store, id, nil)
		if err != nil {
			return err
		}
		page.all = how.all
		return e.say(e.pageAnswer(page))
	})
}

func (e *env) pageAnswer(page *runPage) answer {
	object := runview.NewStatusJSON(page.run, page.tasks, page.counted)
	a := answer{object: object, ids: []string{decimal(object.ID)}}
	if e.settings.Text("output") == "table" {
		a.text = page.String()
	}
	return a
}

// ended returns the error of a command that waited for a run and showed it, or nil if the run succeeded. For people the error is
// short: the page has shown why the run ended so, and what to type next.
func (e *env) ended(run *queue.Run) error {
	failed := runEnd(run)
	if failed == nil {
		return nil
	}
	if e.settings.Text("output") == "table" {
		failed.err, failed.hint = fmt.Errorf("run %d %s", run.ID, run.State), ""
		return failed
	}
	again := fmt.Sprintf("%s retry %d", program, run.ID)
	if runview.IsHere(run) {
		again += fmt.Sprintf(" && %s worker --only %d", program, run.ID)
	}
	failed.hint = "`" + again + "` runs again what did not succeed"
	return failed
}

const maxItemsShown = 12 // items of one foreach step; a line below them counts the others

// runState returns the state of a run in its colour.
func (p painter) runState(state string) string {
	switch state {
	case "succeeded":
		return p.Good(state)
	case "failed":
		return p.Bad(state)
	case "waiting", "paused", "canceled":
		return p.Warn(state)
	case "running":
		return p.Note(state)
	}
	return state
}

// String returns the page: the run, its facts, its tasks, and the commands to type next.
func (p *runPage) String() string {
	var b strings.Builder
	b.WriteString(p.fold(p.headline(), 0) + "\n")
	if reason := runview.InlineText(p.reason()); reason != "" && !p.starting() {
		b.WriteString(p.fold(reason, 0) + "\n")
	}
	b.WriteString("\n" + p.factLines() + "\n")
	b.WriteString(p.taskLines())
	around := runview.Around{
		Current: p.current, Watched: p.watched, Admin: p.rights != nil && p.rights.Admin, Part: p.rights != nil && !p.rights.Sees(p.run.SubmittedBy),
		Obstacles: p.way, IsCopy: p.isCopy != "",
	}
	if next := runview.Next(p.run, p.tasks, around); len(next) > 0 {
		b.WriteString("\n" + p.Dim("next") + "\n")
		for _, command := range next {
			b.WriteString("  " + command.Text + "\n") // printed unchanged, so that it can be copied
		}
	}
	return b.String()
}

// starting reports whether the worker of `oarlock run` is still on its way to the run. Then the page does not complain that no
// other worker serves the run.
func (p *runPage) starting() bool {
	return p.watched && p.run.State == "queued" && p.run.Epoch == 0 && runview.IsHere(p.run)
}

func (p *runPage) headline() string {
	r := p.run
	text := fmt.Sprintf("%s  %s %s  %s", p.Bold(fmt.Sprintf("run %d", r.ID)), r.DAG, p.Dim(fmt.Sprintf("version %d", r.Version)), p.runState(r.State))
	switch {
	case r.StartedAt.IsZero():
	case r.Over():
		text += p.Dim(" after " + runview.Span(r.FinishedAt.Sub(r.StartedAt)))
	default:
		text += p.Dim(" for " + runview.Span(p.now.Sub(r.StartedAt)))
	}
	if r.Tolerated > 0 {
		text += p.Warn(fmt.Sprintf("  %s tolerated", runview.Count(r.Tolerated, "failure")))
	}
	return text
}

// facts returns a row for each known fact about the run: its name and its value. A run with many tasks has a row that counts them
// by state.
func (p *runPage) facts() (rows [][]string) {
	detail := runview.RunDetail{Run: p.run, Schedule: p.made, Driver: runview.DriverOf(p.run, p.tasks), Lost: runview.LostDrivers(p.events)}
	if p.dag != nil {
		detail.Spec = p.dag.Spec
	}
	for _, fact := range runview.Facts(detail) {
		value := fact.Value.String()
		if fact.Aside != "" {
			value = strings.TrimPrefix(value+"  "+p.Dim(fact.Aside), "  ")
		}
		rows = append(rows, []string{p.Dim(fact.Name), value})
	}
	unlisted := p.unlisted()
	if total := len(p.tasks) + unlisted; total > maxItemsShown {
		rows = append(rows, []string{p.Dim("tasks"), fmt.Sprintf("%d: %s", total, runview.CountStates(p.tasks, unlisted))})
	}
	return rows
}

// taskLines returns a line for each task, with the last output of failed tasks and the questions of approvals below. Of a step with
// many items it shows some and counts the others. If p.rows is set, it returns only that many lines, by fewTasks.
func (p *runPage) taskLines() string {
	if p.rows > 0 {
		return p.fewTasks()
	}
	var rows [][]string
	var below [][]string // lines below each row, which the alignment ignores
	add := func(row, lines []string) {
		rows, below = append(rows, row), append(below, lines)
	}
	for i := 0; i < len(p.tasks); {
		node := &p.tasks[i]
		add(p.taskRow(node), append(p.asked(node), p.quoted(p.tails[i])...))
		i++
		n := p.itemsFrom(i)
		urgent, others := p.shownItems(i, n)
		for _, k := range urgent {
			at := i + k
			add(p.taskRow(&p.tasks[at]), append(p.asked(&p.tasks[at]), p.quoted(p.tails[at])...))
		}
		if hidden := p.hiddenItems(others, node, p.tasks[i:i+n]); hidden != "" {
			below[len(below)-1] = append(below[len(below)-1], p.Dim("    … "+hidden))
		}
		i += n
	}
	var b strings.Builder
	for i, line := range p.alignTasks(rows) {
		b.WriteString(line + "\n")
		for _, quoted := range below[i] {
			b.WriteString(p.fold(quoted, term.Width(tailMark)) + "\n")
		}
	}
	return b.String()
}

// itemsFrom returns how many tasks from index i on are items of one foreach step; 0 if the task there is no item.
func (p *runPage) itemsFrom(i int) int {
	n := 0
	for i+n < len(p.tasks) && p.tasks[i+n].Item != "" && runview.StepOf(p.tasks[i+n].Step) == runview.StepOf(p.tasks[i].Step) {
		n++
	}
	return n
}

// shownItems decides which of the n items from index i on have a line of their own. It returns the indexes of these, counted from
// i, and the items without a line. With --all each item has a line.
func (p *runPage) shownItems(i, n int) (shown []int, others []queue.Task) {
	if p.all {
		return runview.ByUrgency(p.tasks[i : i+n]), nil
	}
	return runview.SplitUrgent(p.tasks[i:i+n], maxItemsShown)
}

// hiddenItems returns a text that counts by state the items of a step that have no line: others, and items that have no row in the
// database yet. It returns "" if each item has a line. node is the step, and items are all its items with a row.
func (p *runPage) hiddenItems(others []queue.Task, node *queue.Task, items []queue.Task) string {
	unlisted := runview.CountItems(node, items).Unlisted
	if len(others)+unlisted == 0 {
		return ""
	}
	text := fmt.Sprintf("%d more of %s: %s", len(others)+unlisted, runview.InlineText(node.Step), runview.CountStates(others, unlisted))
	if len(others) > 0 {
		text += fmt.Sprintf(" (all: %s status %d --all)", program, p.run.ID)
	}
	return text
}

// unlisted counts the items of all steps that have no row in the database yet.
func (p *runPage) unlisted() (n int) {
	for i := range p.tasks {
		if node := &p.tasks[i]; node.Items > 0 {
			n += runview.CountItems(node, p.tasks[i+1:i+1+p.itemsFrom(i+1)]).Unlisted
		}
	}
	return n
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
	row := []string{indent + p.Paint(sgr, glyph) + " " + runview.InlineText(name), p.Paint(sgr, t.State), p.Dim(runview.TaskTime(t, p.now)), ""}
	row[3] = p.taskNote(t)
	return row
}

// taskNote returns a note on a task: its failure or another unusual fact, and the last line of a task that runs. It returns "" if
// the task has none of these.
func (p *runPage) taskNote(t *queue.Task) string {
	text := runview.TaskNote(p.run, t)
	if given := runview.ParamText(t.Outputs); given != "" && p.decided[runview.TaskName(t.Step, t.Item)] {
		text += " with " + given
	}
	if line := p.lastLine(t); line != "" {
		text = strings.TrimPrefix(text+"  "+p.Dim(line), "  ")
	}
	if state, err := dagrun.ParseState(t.State); err == nil && (state == dagrun.TaskSucceeded || state == dagrun.TaskPending) {
		return p.Dim(text)
	}
	return text
}

// quoted returns lines that a task wrote, each behind a mark and dimmed.
func (p *runPage) quoted(lines []string) []string {
	var quoted []string
	for _, l := range lines {
		quoted = append(quoted, p.Dim(tailMark+graphview.Isolate(l)))
	}
	return quoted
}

// asked returns the question of an approval, as lines to stand below its task. It returns nil for a task that waits for no
// approval.
func (p *runPage) asked(t *queue.Task) []string {
	if t.Approval == nil {
		return nil
	}
	lines := runview.QuestionLines(t.Approval)
	for i := range lines {
		lines[i] = p.Dim(tailMark) + lines[i]
	}
	return lines
}

// fewTasks returns at most p.rows lines: the most urgent tasks, in the order of p.tasks, and a line that counts the others.
func (p *runPage) fewTasks() string {
	limit := p.rows
	unlisted := p.unlisted()
	if len(p.tasks)+unlisted > limit {
		limit = max(limit-1, 1) // the last row counts the others
	}
	urgent, others := runview.SplitUrgent(p.tasks, limit)
	text := p.rowsOf(urgent)
	if more := len(others) + unlisted; more > 0 {
		text += p.Dim(fmt.Sprintf("  … %d more: %s", more, runview.CountStates(others, unlisted))) + "\n"
	}
	return text
}

func (p *runPage) rowsOf(at []int) string {
	rows := make([][]string, len(at))
	for k, i := range at {
		rows[k] = p.taskRow(&p.tasks[i])
	}
	return strings.Join(p.alignTasks(rows), "\n") + "\n"
}

// lastLine returns the last line that a running task wrote. It returns "" if the task does not run, or if the line is not known.
func (p *runPage) lastLine(t *queue.Task) string {
	if p.latest == nil || t.State != "running" && t.State != "finishing" {
		return ""
	}
	return p.latest(runview.TaskName(t.Step, t.Item))
}

const (
	tailMark  = "      │ "
	noteRoom  = 44 // columns that are kept for the text behind the name of a task
	leastName = 20
)

// fold breaks a line that is wider than the page, and indents the rest by under columns. On a page that is drawn again and again it
// cuts the line instead, so that each task keeps one line.
func (p *runPage) fold(line string, under int) string {
	if p.live && p.columns > 0 {
		return term.Cut(line, p.columns)
	}
	return term.Fold(line, p.columns, under)
}

// factLines returns the facts as aligned lines, with long values folded.
func (p *runPage) factLines() string {
	facts := p.facts()
	under := 0
	for _, fact := range facts {
		under = max(under, term.Width(fact[0])+term.ColumnGap)
	}
	lines := splitLines(term.AlignRows(facts))
	for i := range lines {
		lines[i] = p.fold(lines[i], under)
	}
	return strings.Join(lines, "\n") + "\n"
}

// alignTasks returns a line for each row of four cells, with the cells aligned as columns. If there is little room, a name that is
// longer than others shifts only its own line to the right.
func (p *runPage) alignTasks(rows [][]string) []string {
	widths := make([]int, 4)
	room := 0
	if p.columns > 0 {
		room = max(p.columns-noteRoom, leastName)
	}
	for _, row := range rows {
		for i, cell := range row {
			if w := term.Width(cell); i > 0 || room == 0 || w <= room {
				widths[i] = max(widths[i], w)
			}
		}
	}
	note := widths[0] + widths[1] + widths[2] + 3*term.ColumnGap
	lines := make([]string, len(rows))
	for i, row := range rows {
		lines[i] = p.fold(strings.TrimRight(term.AlignRow(row, widths), " "), note)
	}
	return lines
}
