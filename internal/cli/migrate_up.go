package cli

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/migrations"
)

func newMigrateUpCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "up",
		Usage: "bring the database to the schema of this binary",
		Description: manual{
			about: `Applies every pending migration, and waits while another one migrates.`,
			examples: []string{
				"DATABASE_URL=postgres://app@db.internal/app oarlock migrate up",
				"oarlock migrate up -o json",
			},
			exits: migrateExits,
		}.String(),
		Action: func(c *cli.Context) error { return runMigrateUp(c.Context, e) },
	}
}

func runMigrateUp(ctx context.Context, e *env) error {
	url, _, err := e.database(ctx)
	if err != nil {
		return err
	}
	steps, err := migrations.Up(ctx, url, e.migrationLog())
	if err != nil {
		return err
	}
	upToDate := fmt.Sprintf("nothing to do: the schema is at version %d", migrations.MaxVersion)
	return e.say(e.moved(steps, "applied", upToDate, migrations.MaxVersion))
}
