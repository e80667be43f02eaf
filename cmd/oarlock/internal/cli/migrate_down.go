package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/doctor"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/migrations"
)

type migrateDownOptions struct {
	to    int64
	yes   bool
	force bool
}

func newMigrateDownCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "down",
		Usage: "take migrations back, and the data in their tables",
		Flags: []cli.Flag{
			&cli.Int64Flag{Name: "to", Usage: "keep migrations up to this `VERSION`; 0 keeps nothing but the roles"},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask; needed where nobody can be asked"},
			&cli.BoolFlag{Name: "force", Usage: "also while workers are live or runs are open"},
		},
		Description: manual{
			about: `Takes back every migration above --to, the newest first. Data in the tables they made is lost. On a
terminal it says what it would do and asks; elsewhere it refuses without --yes. While workers are live or runs are not
over it names them and refuses, unless --force is given.`,
			examples: []string{
				"oarlock migrate down --to 1",
				"oarlock migrate down --to 0 --yes    # leave no trace but the roles",
			},
			exits: migrateDownExits,
		}.String(),
		Action: func(c *cli.Context) error {
			if !c.IsSet("to") {
				return &usageError{msg: "migrate down needs --to VERSION", hint: "`oarlock migrate status` lists the versions; 0 removes everything"}
			}
			return runMigrateDown(c.Context, e, migrateDownOptions{to: c.Int64("to"), yes: c.Bool("yes"), force: c.Bool("force")})
		},
	}
}

func runMigrateDown(ctx context.Context, e *env, o migrateDownOptions) error {
	if o.to < 0 || o.to > migrations.MaxVersion {
		return &usageError{msg: fmt.Sprintf("there is no version %d", o.to), hint: fmt.Sprintf("name one from 0 to %d", migrations.MaxVersion)}
	}
	url, link, err := e.database(ctx)
	if err != nil {
		return err
	}
	if !o.yes && (!e.StdinTTY || !e.StderrTTY) {
		return &usageError{msg: "migrate down deletes data and nobody can be asked", hint: "add --yes if that is what you want"}
	}
	going, err := e.goingDown(ctx, url, o.to)
	if err != nil {
		return err
	}
	if len(going) > 0 && !o.force {
		if err := e.unusedSchema(ctx, url); err != nil {
			return err
		}
	}
	if !o.yes {
		if err := e.confirmDown(ctx, going, doctor.Target(&link.Config)); err != nil {
			return err
		}
	}
	steps, err := migrations.Down(ctx, url, o.to, e.migrationLog())
	if err != nil {
		return err
	}
	return e.say(e.moved(steps, "removed", fmt.Sprintf("nothing to do: no version above %d is applied", o.to), o.to))
}

// goingDown lists the migrations that would be undone.
func (e *env) goingDown(ctx context.Context, url string, to int64) ([]string, error) {
	history, err := migrations.Status(ctx, url, e.migrationLog())
	if err != nil {
		return nil, err
	}
	var going []string
	for _, m := range history {
		if m.Version > to && !m.Pending() {
			going = append(going, fmt.Sprintf("%d %s", m.Version, m.Name))
		}
	}
	return going, nil
}

// shownWorkers bounds how many live workers a refusal names.
const shownWorkers = 10

// unusedSchema fails while workers are live or runs are open, because they would lose their tables.
func (e *env) unusedSchema(ctx context.Context, url string) error {
	use, err := migrations.InUse(ctx, url, e.migrationLog())
	if err != nil || len(use.Workers) == 0 && use.Runs == 0 {
		return err
	}
	return &failure{
		kind: conflict,
		err:  fmt.Errorf("this schema is in use by %s", inUse(use)),
		hint: "stop the workers, and let the runs end or cancel them; --force takes the schema away from them, and their data with it",
	}
}

// inUse names the live workers, up to shownWorkers, and counts the open runs.
func inUse(use migrations.Use) string {
	var parts []string
	if n := len(use.Workers); n > 0 {
		names := use.Workers[:min(n, shownWorkers)]
		text := runview.Count(n, "live worker") + " (" + strings.Join(names, ", ")
		if more := n - len(names); more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		parts = append(parts, text+")")
	}
	if use.Runs > 0 {
		parts = append(parts, countAtLeast(use.Runs, use.Runs >= migrations.MaxOpen, "open run"))
	}
	return strings.Join(parts, " and ")
}

// confirmDown prints which migrations would be undone, and asks the user.
func (e *env) confirmDown(ctx context.Context, going []string, database string) error {
	if len(going) == 0 {
		return nil
	}
	fmt.Fprintf(e.Stderr, "This takes back %s in %s, and deletes the data in their tables.\n", strings.Join(going, ", "), database)
	return e.confirm(ctx)
}
