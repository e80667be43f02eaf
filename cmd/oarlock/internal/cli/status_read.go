package cli

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	tailTasks = 3        // failed tasks whose last lines are shown
	tailBytes = 16 << 10 // of one task's log: what its last lines are looked for in
)

// runPage is what status shows of a run.
type runPage struct {
	painter

	now     time.Time
	watched bool // it is being followed already
	all     bool // each item has a line, however many there are
	run     *queue.Run
	tasks   []queue.Task        // in the order of the graph
	counted []queue.StepSummary // with their items counted, for programs
	dag     *queue.Definition
	current int                      // the newest version of its DAG; 0: not to be read by this user
	made    *queue.Schedule          // the schedule that made it; nil: none, or it is gone, or not to be seen by this user
	way     queue.Obstacles          // of a queued run; zero: not to be read by this user
	isCopy  string                   // why no worker claims a queued run here; "": one may
	rights  *queue.Rights            // of this user; nil: not read
	events  []queue.Event            // none: not to be read by this user
	decided map[string]bool          // by the name of a task: an approval that somebody gave
	tails   map[int][]string         // last lines of failed tasks, by index in tasks
	columns int                      // lines are folded to; 0: they are not
	live    bool                     // lines are cut instead
	rows    int                      // for as many tasks there is room; 0: for all
	latest  func(task string) string // the last line of one that runs; nil: not known
}

// readPage reads a run and its tasks; for people, also what helps to understand them, as far as this user may. A page of
// the same run that was read before spares it the DAG.
func (e *env) readPage(ctx context.Context, store *queue.Store, id queue.RunID, before *runPage) (*runPage, error) {
	run, err := store.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	page := &runPage{painter: e.stdoutPaint(), now: time.Now(), run: run, tails: map[int][]string{}, columns: e.pageColumns()}
	if page.tasks, err = store.Tasks(ctx, id); err != nil {
		return nil, err
	}
	switch format := e.settings.Text("output"); {
	case isJSON(format):
		page.counted, err = store.CountItems(ctx, id, page.tasks)
		return page, err
	case format != "table":
		return page, nil
	}
	if before != nil {
		page.dag, page.current, page.events, page.made, page.rights = before.dag, before.current, before.events, before.made, before.rights
	}
	for _, more := range []func(context.Context, *queue.Store) error{page.readRights, page.readDAG, page.readSchedule, page.readObstacles, page.readEvents, page.readDecisions, page.readTails} {
		if err := more(ctx, store); err != nil && diagnose(ctx, err).kind != denied {
			return nil, err
		}
	}
	return page, nil
}

func (p *runPage) readDAG(ctx context.Context, store *queue.Store) error {
	if p.dag == nil {
		version, spec, err := getDAG(ctx, store, p.run.DAG, p.run.Version)
		if err != nil {
			return err
		}
		graph, err := spec.Graph()
		if err != nil {
			return err
		}
		p.dag, p.current = &queue.Definition{Spec: spec, Graph: graph}, version.Current
	}
	runview.SortByGraph(p.tasks, p.dag.Graph, func(t *queue.Task) string { return t.Step })
	return nil
}

// readSchedule reads the schedule that made the run: of those with its name the submitter's, else the file's.
func (p *runPage) readSchedule(ctx context.Context, store *queue.Store) error {
	if p.run.Schedule == "" || p.made != nil {
		return nil
	}
	named, err := store.Schedules(ctx, queue.ScheduleFilter{DAG: p.run.DAG, Name: p.run.Schedule, Limit: queue.MaxPage})
	for i := range named {
		if s := &named[i]; s.Owner == p.run.SubmittedBy || s.Owner == "" && p.made == nil {
			p.made = s
		}
	}
	return err
}

func (p *runPage) readRights(ctx context.Context, store *queue.Store) error {
	if p.rights != nil {
		return nil
	}
	rights, err := store.Rights(ctx)
	if err == nil {
		p.rights = &rights
	}
	return err
}

// readObstacles looks for what keeps a queued run. Where no worker gives signs of life, or this user cannot know, the database may be a copy.
func (p *runPage) readObstacles(ctx context.Context, store *queue.Store) error {
	if p.run.State != "queued" || p.rights == nil {
		return nil
	}
	var err error
	if p.rights.Read {
		if p.way, err = store.Obstacles(ctx, p.run.ID); err != nil || !p.way.Deserted {
			return err
		}
	}
	p.isCopy, err = store.MayBeCopy(ctx)
	return err
}

// reason says what the run waits for, or why it ended so.
func (p *runPage) reason() string { return cmp.Or(p.isCopy, p.run.Reason) }

// readEvents reads what is new.
func (p *runPage) readEvents(ctx context.Context, store *queue.Store) error {
	last := int64(0)
	if n := len(p.events); n > 0 {
		last = p.events[n-1].ID
	}
	events, err := readEvents(ctx, store, p.run.ID, last)
	p.events = append(slices.Clip(p.events), events...)
	return err
}

// readDecisions finds the approvals that were given: what was said with one is the outputs of its task. Where the DAG is known to
// ask for none, there is nothing to find.
func (p *runPage) readDecisions(ctx context.Context, store *queue.Store) error {
	if p.dag != nil && !slices.Contains(p.dag.Spec.Needs(), "action:approval") {
		return nil
	}
	controls, err := store.Controls(ctx, p.run.ID)
	p.decided = runview.Approved(controls)
	return err
}

// readTails reads the last lines of the first tasks that failed.
func (p *runPage) readTails(ctx context.Context, store *queue.Store) error {
	for i := range p.tasks {
		t := &p.tasks[i]
		if t.State != "failed" || t.Attempt == 0 || !runview.HasLog(t) {
			continue
		}
		if len(p.tails) == tailTasks {
			return nil
		}
		lines, err := readTail(ctx, store, p.run.ID, t)
		if err != nil {
			return err
		}
		p.tails[i] = lines
	}
	return nil
}

// readTail is the last lines that a task wrote to standard error; to standard output where that was silent.
func readTail(ctx context.Context, store *queue.Store, run queue.RunID, t *queue.Task) ([]string, error) {
	query := queue.LogQuery{Run: run, Step: runview.StepOf(t.Step), Item: t.Item, Attempt: t.Attempt, Lines: 4 * runview.LastLinesMax}
	if _, number, replaced := strings.Cut(t.Step, "~"); replaced {
		query.Alt, _ = strconv.Atoi(number)
	}
	text := map[queue.Stream]string{}
	for chunk, err := range store.OpenLogs(query).Stored(ctx) {
		if err != nil {
			return nil, err
		}
		kept := text[chunk.Stream] + string(chunk.Data)
		text[chunk.Stream] = kept[max(0, len(kept)-tailBytes):]
	}
	if lines := runview.LastLines(text[queue.StreamStderr]); len(lines) > 0 {
		return lines, nil
	}
	return runview.LastLines(text[queue.StreamStdout]), nil
}
