package cli

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	tailTasks = 3        // failed tasks of which the last lines are shown
	tailBytes = 16 << 10 // end of a task's log in which its last lines are searched
)

// runPage is a page of status about one run.
type runPage struct {
	painter

	now     time.Time
	watched bool // a watcher follows the run already
	all     bool // each item has a line, however many there are
	run     *queue.Run
	tasks   []queue.Task        // in the order of the graph
	counted []queue.StepSummary // tasks with their items counted, for programs
	dag     *queue.Definition
	current int                      // newest version of its DAG; 0: this user may not read it
	made    *queue.Schedule          // the schedule that made it; nil: none, deleted, or hidden from this user
	way     queue.Obstacles          // obstacles of a queued run; zero: this user may not read them
	isCopy  string                   // why no worker claims a queued run here; "": workers may claim it
	rights  *queue.Rights            // rights of this user; nil: not read
	events  []queue.Event            // nil: this user may not read them
	decided map[string]bool          // names of tasks with an approval that was given
	tails   map[int][]string         // last lines of failed tasks, by index in tasks
	columns int                      // width to which lines are folded; 0: not folded
	live    bool                     // lines are cut instead of folded
	rows    int                      // how many tasks fit; 0: all
	latest  func(task string) string // returns the last line of a running task; nil: not known
}

// readPage reads a run and its tasks. For people it also reads the facts that explain them, as far as this user is allowed to; for
// JSON it counts items. before is an earlier page of the same run, or nil. From it readPage takes the DAG, the schedule, the rights
// and the events, and reads only later events.
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

// readSchedule sets p.made to the schedule that made the run. It leaves p.made nil if no schedule did, or if this user does not see
// it. Of several schedules with the name, the submitter's counts before the file's.
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

// readObstacles sets p.way to the reasons why a queued run does not start, if this user is allowed to read them. If no worker gives
// signs of life, or if the user is not allowed, it sets p.isCopy to a text if the database may be a copy. It reads nothing if the
// run is not queued, or if p.rights is nil.
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

// reason returns what the run waits for, or why it ended. It returns "" if there is nothing to explain.
func (p *runPage) reason() string {
	var spec *dagspec.Spec
	if p.dag != nil {
		spec = p.dag.Spec
	}
	return cmp.Or(p.isCopy, runview.RunReason(p.run, spec))
}

// readEvents appends to p.events the events since the last read.
func (p *runPage) readEvents(ctx context.Context, store *queue.Store) error {
	last := int64(0)
	if n := len(p.events); n > 0 {
		last = p.events[n-1].ID
	}
	events, err := readEvents(ctx, store, p.run.ID, last)
	p.events = append(slices.Clip(p.events), events...)
	return err
}

// readDecisions sets p.decided to the approvals that were given: the texts given with an approval are the outputs of its task.
// It reads nothing if the DAG is known to have no approval.
func (p *runPage) readDecisions(ctx context.Context, store *queue.Store) error {
	if p.dag != nil && !slices.Contains(p.dag.Spec.Needs(), "action:approval") {
		return nil
	}
	controls, err := store.Controls(ctx, p.run.ID)
	p.decided = runview.Approved(controls)
	return err
}

// readTails sets p.tails to the last lines of the first tasks that failed, at most tailTasks.
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

// readTail returns the last lines that a task's latest attempt wrote to standard error, or to standard output if it wrote no
// errors.
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
