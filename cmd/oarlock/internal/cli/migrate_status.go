package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/migrations"
)

func newMigrateStatusCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "list what is applied and what is pending",
		Description: manual{
			about: `Lists the schema history: what this binary knows and what the database has, and which installation that is.
Changes nothing, takes no lock, works on a standby. It exits 0 with migrations pending, too: a script looks at the state
of each in -o json. "oarlock doctor" fails when the schema does not fit this binary.`,
			examples: []string{
				"oarlock migrate status",
				"oarlock migrate status -o json | jq .compatible",
				"oarlock migrate status -o json | jq -e 'all(.migrations[]; .state != \"pending\")'  # exits 1 where some are",
			},
			exits: []exitNote{
				{exitOK, "the history was read, whatever it says: also with migrations pending"},
				{exitError, "the history cannot be read"},
				usageNote, unreachableNote, settingsNote,
			},
		}.String(),
		Action: func(c *cli.Context) error { return runMigrateStatus(c.Context, e) },
	}
}

type jsonMigration struct {
	Version      int64      `json:"version"`
	Name         string     `json:"name"`
	State        string     `json:"state"` // applied, pending, or unknown: only a newer binary knows it
	AppliedAt    *time.Time `json:"applied_at"`
	ProgramsFrom int64      `json:"programs_from"` // programs of this schema version and of later ones work with it
}

type jsonMigrations struct {
	Version    int64           `json:"version"`
	Min        int64           `json:"min"`
	Max        int64           `json:"max"`
	Compatible bool            `json:"compatible"`
	Migrations []jsonMigration `json:"migrations"`

	Installation *jsonInstallation `json:"installation"` // null: the schema is missing, or too old to know installations
}

func runMigrateStatus(ctx context.Context, e *env) error {
	url, _, err := e.database(ctx)
	if err != nil {
		return err
	}
	history, err := migrations.Status(ctx, url, e.migrationLog())
	if err != nil {
		return err
	}
	installation, err := migrations.InstallationOf(ctx, url, e.migrationLog())
	if err != nil {
		return err
	}
	a, object := e.statusAnswer(history)
	next, err := e.statusSummary(ctx, url, object)
	if err != nil {
		return err
	}
	a.text += next
	if installation != nil {
		object.Installation = new(installationJSON(installation))
		a.text += "\n" + installationText(installation)
	}
	a.object = object
	return e.say(a)
}

func (e *env) statusAnswer(history []migrations.Entry) (answer, jsonMigrations) {
	object := jsonMigrations{Min: migrations.MinVersion, Max: migrations.MaxVersion, Migrations: []jsonMigration{}}
	a := answer{lines: []any{}, ids: []string{}}
	var schema migrations.Schema
	rows := table{head: []string{"VERSION", "NAME", "STATE", "APPLIED AT"}}
	for _, m := range history {
		j := migrationState(m)
		if !m.Pending() {
			schema.Version, schema.ProgramsFrom = max(schema.Version, m.Version), max(schema.ProgramsFrom, m.ProgramsFrom)
		}
		object.Migrations = append(object.Migrations, j)
		a.lines = append(a.lines, j)
		a.ids = append(a.ids, decimal(m.Version))
		rows.rows = append(rows.rows, []string{decimal(m.Version), m.Name, e.paintState(j.State), runview.LocalTime(m.AppliedAt)})
	}
	object.Version, object.Compatible = schema.Version, schema.Check() == nil
	a.text = rows.String()
	return a, object
}

func migrationState(m migrations.Entry) jsonMigration {
	j := jsonMigration{Version: m.Version, Name: m.Name, State: "pending", ProgramsFrom: m.ProgramsFrom}
	if m.Pending() {
		return j
	}
	at := m.AppliedAt.UTC()
	j.AppliedAt, j.State = &at, "applied"
	if m.Version > migrations.MaxVersion {
		j.State = "unknown"
	}
	return j
}

func (e *env) paintState(state string) string {
	switch state {
	case "applied":
		return e.stdoutPaint().good(state)
	case "pending":
		return e.stdoutPaint().warn(state)
	}
	return e.stdoutPaint().bad(state)
}

// statusSummary explains the list and what to do.
func (e *env) statusSummary(ctx context.Context, url string, s jsonMigrations) (string, error) {
	switch {
	case s.Version > s.Max && s.Compatible:
		return fmt.Sprintf("\nThe schema (version %d) is newer than this binary (%s), which works with it: upgrade this binary next.\n", s.Version, versionRange()), nil
	case s.Version > s.Max:
		return fmt.Sprintf("\nThe schema (version %d) is newer than this binary (%s): upgrade this binary.\n", s.Version, versionRange()), nil
	case s.Version < s.Max:
		workers, err := e.meanwhile(ctx, url, s.Version)
		return "\nMigrations are pending: run `oarlock migrate up`. " + workers + "\n", err
	}
	return "\nThe schema is up to date.\n", nil
}

// meanwhile explains whether workers may go on working while the pending migrations are applied.
func (e *env) meanwhile(ctx context.Context, url string, version int64) (string, error) {
	from := migrations.PendingFrom(version)
	if version == 0 {
		return "", nil
	}
	if version >= from {
		return fmt.Sprintf("Workers may go on: programs of schema version %d and newer work with the new schema.", from), nil
	}
	stopped, err := migrations.Excludes(ctx, url, e.migrationLog())
	switch {
	case err != nil && diagnose(ctx, err).kind == denied: // a user that may read the history may still lack the right to see workers
		return "Stop the workers before: their programs do not work with the new schema.", nil
	case len(stopped) > 0:
		return fmt.Sprintf("Stop %s at work before, whose programs do not work with the new schema: %s.",
			runview.Count(len(stopped), "worker"), runview.Printable(strings.Join(stopped, ", "))), nil
	}
	return "No worker at work is stopped by it.", err
}

func versionRange() string {
	if migrations.MinVersion == migrations.MaxVersion {
		return decimal(migrations.MaxVersion)
	}
	return fmt.Sprintf("%d to %d", migrations.MinVersion, migrations.MaxVersion)
}
