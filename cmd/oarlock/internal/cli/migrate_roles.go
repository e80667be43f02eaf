package cli

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/migrations"
)

func newMigrateRolesCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "roles",
		Usage: "create the group roles and grant them what they need",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "print", Usage: "print the SQL instead of running it; needs no database"},
		},
		Description: manual{
			about: `Creates oarlock_owner, oarlock_worker, oarlock_submit, oarlock_read, oarlock_approve, oarlock_admin and oarlock_web,
which log in nowhere: grant them to the users that do. A step of its own because managed servers may forbid it. Where it
is not permitted, the SQL that an administrator can run instead goes to standard output.`,
			examples: []string{
				"oarlock migrate roles",
				"oarlock migrate roles --print | psql -U postgres app",
			},
			exits: migrateExits,
		}.String(),
		Action: func(c *cli.Context) error { return runMigrateRoles(c.Context, e, c.Bool("print")) },
	}
}

var groupRoles = []string{"oarlock_owner", "oarlock_worker", "oarlock_submit", "oarlock_read", "oarlock_approve", "oarlock_admin", "oarlock_web"}

func runMigrateRoles(ctx context.Context, e *env, printOnly bool) error {
	if printOnly {
		return e.saySQL(migrations.RolesSQL())
	}
	url, _, err := e.database(ctx)
	if err != nil {
		return err
	}
	err = migrations.Roles(ctx, url, e.migrationLog())
	if refused, ok := errors.AsType[*migrations.RolesError](err); ok {
		return e.refusedRoles(refused)
	}
	if err != nil {
		return err
	}
	a := answer{object: map[string]any{"roles": groupRoles}, ids: groupRoles}
	for _, name := range groupRoles {
		a.text += e.stdoutPaint().good("ready") + "  " + name + "\n"
	}
	return e.say(a)
}

func (e *env) refusedRoles(refused *migrations.RolesError) error {
	if err := e.saySQL(refused.SQL); err != nil {
		return err
	}
	return &failure{kind: denied, err: refused.Err, hint: "let an administrator of the server run the SQL on standard output in this database"}
}

func (e *env) saySQL(text string) error {
	return e.say(answer{object: map[string]any{"sql": text}, text: text})
}
