package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/internal/doctor"
	"github.com/oarlock-dev/oarlock/migrations"
)

type migrateDownOptions struct {
	to  int64
	yes bool
}

func newMigrateDownCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "down",
		Usage: "take migrations back, and the data in their tables",
		Flags: []cli.Flag{
			&cli.Int64Flag{Name: "to", Usage: "keep migrations up to this `VERSION`; 0 keeps nothing but the roles"},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask; needed where nobody can be asked"},
		},
		Description: manual{
			about: `Takes back every migration above --to, the newest first. Data in the tables they made is lost. On a
terminal it says what it would do and asks; elsewhere it refuses without --yes.`,
			examples: []string{
				"oarlock migrate down --to 1",
				"oarlock migrate down --to 0 --yes    # leave no trace but the roles",
			},
			exits: migrateExits,
		}.String(),
		Action: func(c *cli.Context) error {
			if !c.IsSet("to") {
				return &usageError{msg: "migrate down needs --to VERSION", hint: "`oarlock migrate status` lists the versions; 0 removes everything"}
			}
			return runMigrateDown(c.Context, e, migrateDownOptions{to: c.Int64("to"), yes: c.Bool("yes")})
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
	if !o.yes {
		if err := e.confirmDown(ctx, url, doctor.Target(&link.Config), o.to); err != nil {
			return err
		}
	}
	steps, err := migrations.Down(ctx, url, o.to, e.migrationLog())
	if err != nil {
		return err
	}
	return e.say(e.moved(steps, "removed", fmt.Sprintf("nothing to do: no version above %d is applied", o.to), o.to))
}

// confirmDown lists what would go and asks.
func (e *env) confirmDown(ctx context.Context, url, database string, to int64) error {
	if !e.StdinTTY || !e.StderrTTY {
		return &usageError{msg: "migrate down deletes data and nobody can be asked", hint: "add --yes if that is what you want"}
	}
	history, err := migrations.Status(ctx, url, e.migrationLog())
	if err != nil {
		return err
	}
	var going []string
	for _, m := range history {
		if m.Version > to && !m.Pending() {
			going = append(going, fmt.Sprintf("%d %s", m.Version, m.Name))
		}
	}
	if len(going) == 0 {
		return nil
	}
	fmt.Fprintf(e.Stderr, "This takes back %s in %s, and deletes the data in their tables.\n", strings.Join(going, ", "), database)
	return e.confirm(ctx, "Go on?")
}
