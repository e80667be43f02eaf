package cli

import (
	"context"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

func newDAGVersionsCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "versions",
		Usage:     "list the versions of a DAG, newest first",
		ArgsUsage: "DAG",
		Description: manual{
			about: `New runs get the newest version, or the one that is named when they are asked for; a run keeps its version. For
readers (role oarlock_read).`,
			examples: []string{"oarlock dag versions etl", "oarlock dag show etl --version 2 --source"},
			exits:    dagReadExits,
		}.String(),
		Action: func(c *cli.Context) error { return runDAGVersions(c.Context, e, c.Args().Slice()) },
	}
}

var dagReadExits = []exitNote{
	{exitOK, "it was read"}, deniedNote, usageNote, {exitNotFound, "there is no such DAG, or no such version"}, unreachableNote, settingsNote,
}

func runDAGVersions(ctx context.Context, e *env, args []string) error {
	name, err := oneDAG("dag versions", args)
	if err != nil {
		return err
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		versions, err := store.DAGHistory(ctx, name)
		if err != nil {
			return orNoDAG(ctx, store, name, err)
		}
		return e.say(e.versionsAnswer(versions))
	})
}

func (e *env) versionsAnswer(versions []queue.DAG) answer {
	paint := e.stdoutPaint()
	object := []runview.DAGJSON{}
	a := answer{lines: []any{}, ids: []string{}}
	t := table{head: paint.head("VERSION", "QUEUE", "APPLIED", "BY", "")}
	for i := range versions {
		v := &versions[i]
		j := runview.NewDAGJSON(v)
		object = append(object, j)
		a.lines = append(a.lines, j)
		a.ids = append(a.ids, strconv.Itoa(v.Version))
		current := ""
		if i == 0 {
			current = paint.good("current")
		}
		t.rows = append(t.rows, []string{
			strconv.Itoa(v.Version), runview.Printable(v.Queue), paint.dim(runview.LocalTime(v.PutAt)), paint.dim(runview.Printable(v.PutBy)), current,
		})
	}
	a.object, a.text = object, t.String()
	return a
}
