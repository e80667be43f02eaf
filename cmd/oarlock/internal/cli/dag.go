package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

func newDAGCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "dag",
		Usage: "check DAG files, draw them, register them, and see what is registered",
		Description: manual{
			about: `A DAG is a file, in YAML or JSON. "validate", "graph" and "schema" work on files and need no database; "apply"
registers a file as the next version of its DAG, which "oarlock enqueue" can then ask for.`,
			examples: []string{
				"oarlock dag validate etl.yaml    # every problem at once",
				"oarlock dag graph etl.yaml       # a picture of it",
				"oarlock dag apply etl.yaml       # register it",
				"oarlock dag list                 # what is registered",
			},
			exits: dagExits,
		}.String(),
		Subcommands: []*cli.Command{
			newDAGApplyCommand(e),
			newDAGValidateCommand(e),
			newDAGListCommand(e),
			newDAGShowCommand(e),
			newDAGGraphCommand(e),
			newDAGSchemaCommand(e),
			newDAGVersionsCommand(e),
			newDAGPauseCommand(e),
			newDAGResumeCommand(e),
			newDAGRemoveCommand(e),
			newDAGRetireCommand(e),
		},
	}
}

var dagExits = []exitNote{
	{exitOK, "it worked"},
	deniedNote,
	usageNote,
	{exitNotFound, "there is no such file, DAG or version"},
	unreachableNote,
	{exitInvalid, "a file is invalid, or a setting is wrong"},
}

// dagState returns the state of a DAG in a word: active, paused or removed.
func dagState(d *queue.DAG) string {
	switch {
	case !d.RemovedAt.IsZero():
		return "removed"
	case d.PausedBy != "":
		return "paused"
	}
	return "active"
}

func (p painter) dagState(d *queue.DAG) string {
	switch state := dagState(d); state {
	case "active":
		return p.good(state)
	case "paused":
		return p.warn(state) + p.dim(" by "+runview.Printable(d.PausedBy))
	default:
		return p.dim(state)
	}
}

// orNoDAG adds to a "not found" error the DAG that the user may have meant.
func orNoDAG(ctx context.Context, store *queue.Store, name string, err error) error {
	if !errors.Is(err, queue.ErrNotFound) {
		return err
	}
	said := diagnose(ctx, err)
	return &failure{kind: notFound, err: errors.New(said.message), hint: cmp.Or(otherDAG(ctx, store, name), said.hint)}
}

// otherDAG suggests the DAG that the user may have meant by a name that no DAG has. It returns "" for the name of an
// existing DAG, for example a removed one.
func otherDAG(ctx context.Context, store *queue.Store, name string) string {
	dags, err := store.DAGs(ctx)
	if err != nil && diagnose(ctx, err).kind == denied {
		return "check the name; `oarlock dag list` is for logins with " + toRead + ", and an administrator registers DAGs"
	} else if err != nil {
		return "`oarlock dag list` shows what is there"
	}
	var names []string
	for i := range dags {
		names = append(names, dags[i].Name)
	}
	switch {
	case len(names) == 0:
		return "no DAG is registered yet: `oarlock dag apply FILE` registers one"
	case slices.Contains(names, name):
		return ""
	}
	return cmp.Or(config.DidYouMean(name, names), "`oarlock dag list` shows what is there")
}

// oneDAG reads the argument of a command that takes one DAG and nothing else.
func oneDAG(command string, args []string) (string, error) {
	if len(args) != 1 {
		return "", &usageError{msg: fmt.Sprintf("%s needs one DAG, got %d arguments", command, len(args))}
	}
	return args[0], nil
}
