package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/doctor"
	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/migrations"
)

func newMigrateCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "migrate",
		Usage: "create, upgrade or remove Oarlock's schema",
		Description: manual{
			about: `Oarlock lives in the schemas oarlock and oarlock_river of your database. A migration takes a lock, so you can start
several at once. Each migration is one transaction: if it is killed, type the command again.`,
			examples: []string{
				"oarlock migrate up        # create or upgrade the schema",
				"oarlock migrate status    # list applied and pending migrations",
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
	migrateUpExits   = migrateExitsWith("live workers would stop, and --force is missing; or another migration or transaction is in the way")
	migrateDownExits = migrateExitsWith("workers are live or runs are open, and --force is missing; or another migration or transaction is in the way")
)

func migrateExitsWith(conflict string) []exitNote {
	return []exitNote{
		{exitOK, "the command succeeded, or there was nothing to do"},
		{exitError, "a migration failed or is not permitted; migrations before it stay applied"},
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

// moved returns the answer of migrate up and migrate down: one line per step. verb says how the command changed each step, and is
// the key of the steps in JSON. nothing is the text if there are no steps, and version the schema version afterwards.
func (e *env) moved(steps []migrations.Applied, verb, nothing string, version int64) answer {
	a := answer{lines: []any{}, ids: []string{}, text: nothing + "\n"}
	done := make([]jsonApplied, len(steps))
	var rows [][]string
	for i, s := range steps {
		done[i] = jsonApplied{s.Version, s.Name, s.Duration.Milliseconds()}
		a.lines = append(a.lines, done[i])
		a.ids = append(a.ids, decimal(s.Version))
		rows = append(rows, []string{e.stdoutPaint().Good(verb), decimal(s.Version), s.Name, e.stdoutPaint().Dim(s.Duration.Round(time.Millisecond).String())})
	}
	if len(rows) > 0 {
		a.text = term.AlignRows(rows)
	}
	a.object = map[string]any{"version": version, verb: done}
	return a
}

func newMigrateUpCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "up",
		Usage: "bring the database to the schema of this binary",
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "wait", Usage: "wait at most this long, such as 1m, for a server that does not answer yet"},
			&cli.BoolFlag{Name: "force", Usage: "migrate even if live workers do not work with the new schema"},
		},
		Description: manual{
			about: `Applies every pending migration, and waits while another process migrates. With --wait it also waits for a server
that does not listen yet or is starting up. The command never waits after a wrong password or for a missing database.
Live workers go on if their programs work with the new schema. If not, the command names them and refuses without
--force. A database that is not UTF-8 gets no schema; if it has one already, the command migrates it with a warning.`,
			examples: []string{
				"DATABASE_URL=postgres://app@db.internal/app oarlock migrate up",
				"oarlock migrate up --wait 1m    # if server and migration start together",
				"oarlock migrate up -o json",
			},
			exits: migrateUpExits,
		}.String(),
		Action: func(c *cli.Context) error { return runMigrateUp(c.Context, e, c.Duration("wait"), c.Bool("force")) },
	}
}

func runMigrateUp(ctx context.Context, e *env, wait time.Duration, force bool) error {
	if wait < 0 {
		return &usageError{msg: fmt.Sprintf("--wait must not be negative, got %v", wait)}
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
		upToDate += fmt.Sprintf("; this binary is older (%s) and works with it", versionRange())
	}
	a := e.moved(steps, "applied", upToDate, version)
	a.text += installationText(i)
	return e.say(a)
}

// askAgain is the pause before an absent server is asked again.
const askAgain = 250 * time.Millisecond

// upWithin migrates, and returns the migrations that it applied. While no server answers or the server is starting up, it tries
// again for at most wait; 0 means one try. With force it migrates although live workers would stop.
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

type migrateDownOptions struct {
	to    int64
	yes   bool
	force bool
}

func newMigrateDownCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "down",
		Usage: "take migrations back, and delete the data in their tables",
		Flags: []cli.Flag{
			&cli.Int64Flag{Name: "to", Usage: "keep migrations up to this `VERSION`; 0 keeps only the roles"},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask for a confirmation; the flag is required without a terminal"},
			&cli.BoolFlag{Name: "force", Usage: "go on even if workers are live or runs are open"},
		},
		Description: manual{
			about: `Takes back every migration above --to, newest first, and deletes the data in its tables. On a terminal the command
says what it would do, and asks. Without a terminal the command needs --yes. If workers are live or runs are open,
the command names them and refuses without --force.`,
			examples: []string{
				"oarlock migrate down --to 1",
				"oarlock migrate down --to 0 --yes    # leave only the roles",
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
		return &usageError{msg: fmt.Sprintf("there is no version %d", o.to), hint: fmt.Sprintf("name a version from 0 to %d", migrations.MaxVersion)}
	}
	url, link, err := e.database(ctx)
	if err != nil {
		return err
	}
	if !o.yes && (!e.StdinTTY || !e.StderrTTY) {
		return &usageError{msg: "migrate down deletes data and asks first, but there is no terminal", hint: "add --yes to go on without the question"}
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

// goingDown lists the applied migrations above version to, which would be undone, each as text.
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

// unusedSchema returns a conflict failure if workers are live or runs are open, because they would lose their tables.
func (e *env) unusedSchema(ctx context.Context, url string) error {
	use, err := migrations.InUse(ctx, url, e.migrationLog())
	if err != nil || len(use.Workers) == 0 && use.Runs == 0 {
		return err
	}
	return &failure{
		kind: conflict,
		err:  fmt.Errorf("this schema is in use by %s", inUse(use)),
		hint: "stop the workers, and wait for the runs or cancel the runs; with --force the command deletes the schema and its data at once",
	}
}

// inUse returns a part of a sentence that names the live workers, up to shownWorkers, and counts the open runs.
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

// confirmDown prints which migrations would be undone in which database, and asks the user. It returns an error if the user does
// not agree. If no migration would be undone, it asks nothing.
func (e *env) confirmDown(ctx context.Context, going []string, database string) error {
	if len(going) == 0 {
		return nil
	}
	fmt.Fprintf(e.Stderr, "This takes back %s in %s, and deletes the data in their tables.\n", strings.Join(going, ", "), database)
	return e.confirm(ctx)
}

func newMigrateStatusCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "list applied and pending migrations",
		Description: manual{
			about: `Lists the migrations that this binary knows or the database has, and the installation. The command changes
nothing, takes no lock, and works on a standby. The command exits 0 also if migrations are pending: a script looks at
the state of each migration in -o json. "oarlock doctor" fails if the schema does not fit this binary.`,
			examples: []string{
				"oarlock migrate status",
				"oarlock migrate status -o json | jq .compatible",
				"oarlock migrate status -o json | jq -e 'all(.migrations[]; .state != \"pending\")'  # exits 1 if some are pending",
			},
			exits: []exitNote{
				{exitOK, "the history was read, also if migrations are pending"},
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
	rows := term.Table{Head: []string{"VERSION", "NAME", "STATE", "APPLIED AT"}}
	for _, m := range history {
		j := migrationState(m)
		if !m.Pending() {
			schema.Version, schema.ProgramsFrom = max(schema.Version, m.Version), max(schema.ProgramsFrom, m.ProgramsFrom)
		}
		object.Migrations = append(object.Migrations, j)
		a.lines = append(a.lines, j)
		a.ids = append(a.ids, decimal(m.Version))
		rows.Rows = append(rows.Rows, []string{decimal(m.Version), m.Name, e.paintState(j.State), runview.LocalTime(m.AppliedAt)})
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
		return e.stdoutPaint().Good(state)
	case "pending":
		return e.stdoutPaint().Warn(state)
	}
	return e.stdoutPaint().Bad(state)
}

// statusSummary returns a paragraph for the end of migrate status: whether the schema fits this binary, and what to do. If
// migrations are pending, it also looks at the workers.
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

// meanwhile returns a sentence about whether workers may go on while the pending migrations are applied, and which workers must
// stop before. version is the present schema version; for 0, no schema, it returns "".
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
		return "Stop the workers before the migration: their programs do not work with the new schema.", nil
	case len(stopped) > 0:
		return fmt.Sprintf("The new schema does not work with older programs. Stop %s first: %s.",
			runview.Count(len(stopped), "worker"), runview.Printable(strings.Join(stopped, ", "))), nil
	}
	return "The migration stops no worker at work.", err
}

func versionRange() string {
	if migrations.MinVersion == migrations.MaxVersion {
		return decimal(migrations.MaxVersion)
	}
	return fmt.Sprintf("%d to %d", migrations.MinVersion, migrations.MaxVersion)
}

func newMigrateRolesCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "roles",
		Usage: "create the group roles and grant them their rights",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "print", Usage: "print the SQL instead of running it; needs no database"},
		},
		Description: manual{
			about: `Creates oarlock_owner, oarlock_worker, oarlock_submit, oarlock_read, oarlock_approve, oarlock_admin and oarlock_web.
These roles cannot log in: grant them to users that can. This is a separate command, because a managed server may
forbid new roles. If your login cannot create roles, the command prints the SQL on standard output, for an
administrator to run.`,
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
		a.text += e.stdoutPaint().Good("ready") + "  " + name + "\n"
	}
	return e.say(a)
}

func (e *env) refusedRoles(refused *migrations.RolesError) error {
	if err := e.saySQL(refused.SQL); err != nil {
		return err
	}
	return &failure{kind: denied, err: refused.Err, hint: "have an administrator of the server run the SQL from standard output in this database"}
}

func (e *env) saySQL(text string) error {
	return e.say(answer{object: map[string]any{"sql": text}, text: text})
}
