package cli

import (
	"context"
	"fmt"
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
Changes nothing, takes no lock, works on a standby. "oarlock doctor" fails when the schema does not fit this binary.`,
			examples: []string{
				"oarlock migrate status",
				"oarlock migrate status -o json | jq .compatible",
			},
			exits: []exitNote{
				{exitOK, "the history was read, whatever it says"},
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
	ProgramsFrom int64      `json:"programs_from"` // programs of an older schema version do not work with it
}

type jsonMigrations struct {
	Version    int64           `json:"version"`
	Min        int64           `json:"min"`
	Max        int64           `json:"max"`
	Compatible bool            `json:"compatible"`
	Migrations []jsonMigration `json:"migrations"`

	Installation *jsonInstallation `json:"installation"` // null: the schema is older than those, or not there
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
	return e.say(e.statusAnswer(history, installation))
}

func (e *env) statusAnswer(history []migrations.Entry, i *migrations.Installation) answer {
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
	a.text = rows.String() + statusSummary(object)
	if i != nil {
		j := installationJSON(i)
		object.Installation = &j
		a.text += "\n" + installationText(i)
	}
	a.object = object
	return a
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

// statusSummary says what the list means and what to do.
func statusSummary(s jsonMigrations) string {
	switch {
	case s.Version > s.Max && s.Compatible:
		return fmt.Sprintf("\nThe schema (version %d) is newer than this binary (%s), which works with it: upgrade this binary next.\n", s.Version, versionRange())
	case s.Version > s.Max:
		return fmt.Sprintf("\nThe schema (version %d) is newer than this binary (%s): upgrade this binary.\n", s.Version, versionRange())
	case s.Version < s.Max:
		return "\nMigrations are pending: run `oarlock migrate up`. " + s.meanwhile() + "\n"
	}
	return "\nThe schema is up to date.\n"
}

// meanwhile says whether workers may go on while pending migrations are applied.
func (s jsonMigrations) meanwhile() string {
	from := migrations.PendingFrom(s.Version)
	switch {
	case s.Version == 0:
		return ""
	case s.Version < from:
		return "Stop the workers before: their programs do not work with the new schema."
	}
	return fmt.Sprintf("Workers may go on: programs of schema version %d and newer work with the new schema.", from)
}

func versionRange() string {
	if migrations.MinVersion == migrations.MaxVersion {
		return decimal(migrations.MaxVersion)
	}
	return fmt.Sprintf("%d to %d", migrations.MinVersion, migrations.MaxVersion)
}
