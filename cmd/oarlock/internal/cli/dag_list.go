package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

func newDAGListCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "list",
		Usage: "list the registered DAGs",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "all", Usage: "also those that were taken out of service"}},
		Description: manual{
			about: `Lists DAGs by name, each with the version that new runs get, and when a schedule fires next. For readers
(role oarlock_read).`,
			examples: []string{"oarlock dag list", "oarlock dag list --all -o json", "oarlock dag list -o id"},
			exits:    []exitNote{{exitOK, "the list was read"}, deniedNote, usageNote, unreachableNote, settingsNote},
		}.String(),
		Action: func(c *cli.Context) error { return runDAGList(c.Context, e, c.Bool("all")) },
	}
}

func runDAGList(ctx context.Context, e *env, all bool) error {
	return e.withStore(ctx, func(store *queue.Store) error {
		dags, err := store.DAGs(ctx)
		if err != nil {
			return err
		}
		var listed []queue.DAG
		for i := range dags {
			if all || dags[i].RemovedAt.IsZero() {
				listed = append(listed, dags[i])
			}
		}
		if len(listed) == 0 {
			e.remark("no DAG is registered: `oarlock dag apply FILE` registers one")
		}
		return e.say(e.dagsAnswer(listed))
	})
}

func (e *env) dagsAnswer(dags []queue.DAG) answer {
	paint := e.stdoutPaint()
	now := time.Now()
	object := []runview.ListedDAGJSON{}
	a := answer{lines: []any{}, ids: []string{}}
	t := table{head: paint.head("NAME", "VERSION", "STATE", "QUEUE", "MAX RUNS", "NEXT", "APPLIED", "BY")}
	for i := range dags {
		d := &dags[i]
		j := runview.NewListedDAGJSON(d)
		object = append(object, j)
		a.lines = append(a.lines, j)
		a.ids = append(a.ids, d.Name)
		t.rows = append(t.rows, []string{
			d.Name, strconv.Itoa(d.Version), paint.dagState(d), runview.Printable(d.Queue), paint.limit(d.MaxActive), paint.nextOf(d, now), paint.dim(runview.LocalTime(d.PutAt)),
			paint.dim(runview.Printable(d.PutBy)),
		})
	}
	a.object = object
	if len(dags) > 0 {
		a.text = t.String()
	}
	return a
}

// nextOf writes when the first of a DAG's schedules fires.
func (p painter) nextOf(d *queue.DAG, now time.Time) string {
	if d.NextAt.IsZero() {
		return p.dim("–")
	}
	return runview.FromNow(d.NextAt, now)
}

// limit writes a limit; 0 means that there is none.
func (p painter) limit(n int) string {
	if n == 0 {
		return p.dim("–")
	}
	return strconv.Itoa(n)
}

func (p painter) head(names ...string) []string {
	for i := range names {
		names[i] = p.dim(names[i])
	}
	return names
}

// remark prints a line that is not data to standard error, unless the output is for programs.
func (e *env) remark(format string, args ...any) {
	if e.settings.Text("output") == "table" {
		fmt.Fprintf(e.Stderr, format+"\n", args...)
	}
}
