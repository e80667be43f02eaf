package cli

import (
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/migrations"
)

func newMigrateCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "migrate",
		Usage: "create, upgrade or remove Oarlock's schema",
		Description: manual{
			about: `Oarlock lives in the schemas oarlock and oarlock_river of your database. Migrations take a lock, so that
any number of them may be started at once, and each is one transaction: a killed one is simply run again.`,
			examples: []string{
				"oarlock migrate up        # the only one most people need",
				"oarlock migrate status    # what is applied, what is pending",
			},
			exits: migrateExits,
		}.String(),
		Subcommands: []*cli.Command{
			newMigrateUpCommand(e),
			newMigrateStatusCommand(e),
			newMigrateDownCommand(e),
			newMigrateRolesCommand(e),
			newMigrateAdoptCommand(e),
		},
	}
}

var (
	migrateExits     = migrateExitsWith("another migration did not end in time")
	migrateUpExits   = migrateExitsWith("it would stop live workers, and --force is not given; another migration or transaction is in its way")
	migrateDownExits = migrateExitsWith("workers are live or runs are open, and --force is not given; another migration or transaction is in its way")
)

func migrateExitsWith(conflict string) []exitNote {
	return []exitNote{
		{exitOK, "it worked, or there was nothing to do"},
		{exitError, "a migration failed, or is not permitted; what was applied before it stays"},
		usageNote,
		{exitConflict, conflict},
		{exitUnreachable, "the database cannot be reached, is read-only, or has a schema that is too new for this binary"},
		settingsNote,
	}
}

func (e *env) migrationLog() migrations.Option { return migrations.WithLogger(e.log) }

type jsonApplied struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Ms      int64  `json:"duration_ms"`
}

// moved returns the answer of migrate up and migrate down: one line per step.
func (e *env) moved(steps []migrations.Applied, verb, nothing string, version int64) answer {
	a := answer{lines: []any{}, ids: []string{}, text: nothing + "\n"}
	done := make([]jsonApplied, len(steps))
	var rows [][]string
	for i, s := range steps {
		done[i] = jsonApplied{s.Version, s.Name, s.Duration.Milliseconds()}
		a.lines = append(a.lines, done[i])
		a.ids = append(a.ids, decimal(s.Version))
		rows = append(rows, []string{e.stdoutPaint().good(verb), decimal(s.Version), s.Name, e.stdoutPaint().dim(s.Duration.Round(time.Millisecond).String())})
	}
	if len(rows) > 0 {
		a.text = alignRows(rows)
	}
	a.object = map[string]any{"version": version, verb: done}
	return a
}
