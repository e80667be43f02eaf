package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/doctor"
	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/internal/pglocal"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/queue"
)

func newDoctorCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "check whether the database is fit for Oarlock, and say what to change",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "private", Usage: "start a private Postgres, migrate it, check it, and remove it again"},
		},
		Description: manual{
			about: `Checks whether Oarlock can work with the database, and says what to change. The command itself changes nothing.
Warnings do not change the exit status.

CHECKS
` + checksText(),
			examples: []string{
				"oarlock doctor",
				"oarlock doctor -o json | jq '.checks[] | select(.status != \"ok\")'",
				"oarlock doctor --private    # needs only PostgreSQL's programs, no database",
			},
			exits: []exitNote{
				{exitOK, "no check failed; some checks may have warnings"},
				{exitError, "a check failed"},
				usageNote,
				{exitUnreachable, "the database cannot be reached"},
				settingsNote,
			},
		}.String(),
		Action: func(c *cli.Context) error { return runDoctor(c.Context, e, c.Bool("private")) },
	}
}

// checksText returns a line for each check of the doctor, for the help of the command.
func checksText() string {
	var b strings.Builder
	for _, c := range doctor.Checks() {
		fmt.Fprintf(&b, "  %-15s %s\n", c.Name, c.About)
	}
	return b.String()
}

func runDoctor(ctx context.Context, e *env, private bool) error {
	if private {
		if e.settings.Value("database_url").Origin.Kind == config.FromFlag {
			return &usageError{msg: "--private and --database-url exclude each other", hint: "give --private or --database-url"}
		}
		return e.withPrivatePostgres(ctx, func(server *pglocal.Server) error {
			return e.examine(ctx, server.URL(""), "private PostgreSQL in "+server.Dir())
		})
	}
	url, link, err := e.database(ctx)
	if err != nil {
		return err
	}
	return e.examine(ctx, url, doctor.Target(&link.Config))
}

// withPrivatePostgres starts a server for this call only, migrates it, calls use with it, and removes it.
func (e *env) withPrivatePostgres(ctx context.Context, use func(*pglocal.Server) error) (err error) {
	server, err := pglocal.Start(ctx, pglocal.Config{
		Throwaway: true,
		Log:       e.log,
		Say:       func(text string) { fmt.Fprintln(e.Stderr, text) },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(context.WithoutCancel(ctx))) }()
	url := server.URL("")
	if err := migrations.Roles(ctx, url, e.migrationLog()); err != nil {
		return err
	}
	if _, err := migrations.Up(ctx, url, e.migrationLog()); err != nil {
		return err
	}
	return use(server)
}

type jsonCheck struct {
	Name   string  `json:"name"`
	Status string  `json:"status"` // ok, warn, fail, skip
	Detail string  `json:"detail"`
	Hint   *string `json:"hint"`
}

type jsonReport struct {
	OK       bool        `json:"ok"`
	Database string      `json:"database"`
	Checks   []jsonCheck `json:"checks"`
}

// examine makes the checks on the database behind url and prints the report under the title database. It returns an error if a
// check failed or if it cannot connect.
func (e *env) examine(ctx context.Context, url, database string) error {
	report, connectErr := doctor.Run(ctx, url, e.log, doctor.WithWorker(queue.Connections(false), queue.SessionConns))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a := e.reportAnswer(report, database)
	if connectErr != nil {
		a.text = "" // the error says everything; a list of skipped checks would bury it
	}
	if err := e.say(a); err != nil {
		return err
	}
	if connectErr != nil {
		return connectErr
	}
	return failedChecks(report)
}

func failedChecks(report doctor.Report) error {
	var failed []string
	for _, c := range report.Checks {
		if c.Status == doctor.Fail {
			failed = append(failed, c.Name)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return &failure{
		kind: checkFailed,
		err:  fmt.Errorf("%d of %d checks failed: %s", len(failed), len(report.Checks), strings.Join(failed, ", ")),
		hint: "each failed check says above what to do",
	}
}

func (e *env) reportAnswer(report doctor.Report, database string) answer {
	object := jsonReport{OK: report.Count(doctor.Fail) == 0, Database: database}
	a := answer{}
	paint := e.stdoutPaint()
	var rows [][]string
	for _, c := range report.Checks {
		j := jsonCheck{c.Name, string(c.Status), c.Detail, runview.TextOrNull(c.Hint)}
		object.Checks = append(object.Checks, j)
		a.lines = append(a.lines, j)
		a.ids = append(a.ids, c.Name)
		rows = append(rows, []string{paint.status(c.Status), strings.ReplaceAll(c.Name, "_", " "), oneLine(c.Detail)})
		if c.Hint != "" {
			rows = append(rows, []string{"", "", paint.Dim("→ " + c.Hint)})
		}
	}
	a.object = object
	a.text = paint.Bold(database) + "\n\n" + term.AlignRows(rows) + "\n" + paint.summary(report) + "\n"
	return a
}

func (p painter) status(s doctor.Status) string {
	switch s {
	case doctor.OK:
		return p.Good(string(s))
	case doctor.Warn:
		return p.Warn(string(s))
	case doctor.Fail:
		return p.Bad(string(s))
	case doctor.Skip:
	}
	return p.Dim(string(s))
}

// summary counts the checks by outcome, such as "18 ok, 2 warn". It leaves out outcomes that no check has.
func (p painter) summary(report doctor.Report) string {
	var parts []string
	for _, s := range []doctor.Status{doctor.OK, doctor.Warn, doctor.Fail, doctor.Skip} {
		if n := report.Count(s); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, p.status(s)))
		}
	}
	return strings.Join(parts, ", ")
}
