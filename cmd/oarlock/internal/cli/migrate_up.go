package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/doctor"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/migrations"
)

func newMigrateUpCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "up",
		Usage: "bring the database to the schema of this binary",
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "wait", Usage: "wait so long, such as 1m, for a server that is not there yet"},
			&cli.BoolFlag{Name: "force", Usage: "also while workers are live that do not work with the new schema"},
		},
		Description: manual{
			about: `Applies every pending migration, and waits while another one migrates. With --wait it also waits for a server that
does not listen yet or is starting up. It never waits for what would stay so: a wrong password, a missing database.
Where the programs of live workers work with the new schema, they go on meanwhile; where not, it names them and refuses.
A database that is not UTF-8 gets no schema; one that has a schema already is migrated with a warning.`,
			examples: []string{
				"DATABASE_URL=postgres://app@db.internal/app oarlock migrate up",
				"oarlock migrate up --wait 1m    # where server and migration start together",
				"oarlock migrate up -o json",
			},
			exits: migrateUpExits,
		}.String(),
		Action: func(c *cli.Context) error { return runMigrateUp(c.Context, e, c.Duration("wait"), c.Bool("force")) },
	}
}

func runMigrateUp(ctx context.Context, e *env, wait time.Duration, force bool) error {
	if wait < 0 {
		return &usageError{msg: fmt.Sprintf("--wait must not be negative, as %v is", wait)}
	}
	url, _, err := e.database(ctx)
	if err != nil {
		return err
	}
	steps, err := e.upWithin(ctx, url, wait, force)
	if err != nil {
		return err
	}
	i, err := migrations.InstallationOf(ctx, url, e.migrationLog())
	if err != nil {
		return err
	}
	version := migrations.MaxVersion
	if len(steps) == 0 { // a newer binary may have migrated
		if version, err = migrations.Version(ctx, url, e.migrationLog()); err != nil {
			return err
		}
	}
	upToDate := fmt.Sprintf("nothing to do: the schema is at version %d", version)
	if version > migrations.MaxVersion {
		upToDate += fmt.Sprintf(", newer than this binary (%s), which works with it", versionRange())
	}
	a := e.moved(steps, "applied", upToDate, version)
	a.text += installationText(i)
	return e.say(a)
}

// askAgain is the pause before an absent server is asked again.
const askAgain = 250 * time.Millisecond

// upWithin migrates. While no server answers or the server is starting up, it tries again for at most wait.
func (e *env) upWithin(ctx context.Context, url string, wait time.Duration, force bool) ([]migrations.Applied, error) {
	opts := []migrations.Option{e.migrationLog()}
	if force {
		opts = append(opts, migrations.WithForce())
	}
	for since, told := time.Now(), false; ; {
		steps, err := migrations.Up(ctx, url, opts...)
		passing := pglink.Classify(err) == pglink.NotExecuted && doctor.CertificateHint(err) == ""
		if !passing || len(steps) > 0 || time.Since(since) >= wait {
			return steps, err
		}
		if !told {
			e.remark("waiting up to %v for the database: %s", wait, doctor.Explain(err))
			told = true
		}
		timer := time.NewTimer(askAgain)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
}
