package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/doctor"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/migrations"
)

type adoptOptions struct{ moved, copied, unmarked, yes bool }

func newMigrateAdoptCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "adopt",
		Usage: "say whether a restored database has moved or is a copy, so that workers claim its runs",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "moved", Usage: "the original database is gone: its open runs go on here, and keep their idempotency keys"},
			&cli.BoolFlag{Name: "copy", Usage: "the original database goes on: this copy becomes a separate installation, and its open runs are canceled"},
			&cli.BoolFlag{Name: "unmarked", Usage: "with --copy: needed if this database is a copy of the server's files and looks like the original"},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask for a confirmation; the flag is required without a terminal"},
		},
		Description: manual{
			about: `Workers refuse a database that may be a copy of the database that they served: a dump restored on another server or into
another database, or a timeline that no worker lived through. Submitting still works. Stop the workers before you type
this command. With --copy, runs that had ended stay as they are, and you can never retry them here; "oarlock retry
--latest" makes new runs. On a terminal the command says what it would do, and asks. Without a terminal the command
needs --yes. For members of oarlock_owner.`,
			examples: []string{
				"oarlock migrate adopt --moved",
				"oarlock migrate adopt --copy --yes    # in a script that restores a dump into staging",
			},
			exits: []exitNote{
				{exitOK, "the command succeeded, or there was nothing to do"},
				{exitError, "this user lacks a right, or another error happened: type the command again, because a copy can be half done"},
				usageNote,
				{exitConflict, "a worker is connected, the database was adopted differently before, or a migration did not end in time"},
				unreachableNote, settingsNote,
			},
		}.String(),
		Action: func(c *cli.Context) error {
			return runMigrateAdopt(c.Context, e, adoptOptions{moved: c.Bool("moved"), copied: c.Bool("copy"), unmarked: c.Bool("unmarked"), yes: c.Bool("yes")})
		},
	}
}

func runMigrateAdopt(ctx context.Context, e *env, o adoptOptions) error {
	if o.moved == o.copied {
		return &usageError{
			msg:  "migrate adopt needs --moved or --copy",
			hint: "give --moved if the original database is gone: its runs go on here; give --copy if the original goes on: open runs in this copy are canceled",
		}
	}
	if o.moved && o.unmarked {
		return &usageError{msg: "--moved and --unmarked exclude each other", hint: "a database that moved needs no --unmarked; a copy needs --copy"}
	}
	url, link, err := e.database(ctx)
	if err != nil {
		return err
	}
	i, err := migrations.InstallationOf(ctx, url, e.migrationLog())
	if err != nil {
		return err
	}
	if i == nil {
		return &migrations.VersionError{Min: migrations.MinVersion, Max: migrations.MaxVersion, Command: "oarlock migrate up"}
	}
	if marked := i.Adopting || i.Judge(false) != nil; !marked && o.moved {
		return e.say(adopted(i, 0, fmt.Sprintf("nothing to do: workers do not take this database for a copy (installation %s)\n", i.ID)))
	} else if !marked && !o.unmarked {
		return e.adoptedBefore(ctx, url, i)
	}
	if !o.yes {
		if err := e.confirmAdopt(ctx, url, doctor.Target(&link.Config), i, o); err != nil {
			return err
		}
	}
	return e.adopt(ctx, url, i, o)
}

// adoptedBefore ends the command for a database without a mark of being a copy. If the database was adopted as a copy before and
// has not been used since, it says that there is nothing to do: even a further copy of such a database has no open run. Otherwise
// it returns a usageError, since the user must confirm the copy with --unmarked.
func (e *env) adoptedBefore(ctx context.Context, url string, i *migrations.Installation) error {
	unused, err := migrations.UnusedCopy(ctx, url, e.migrationLog())
	switch {
	case err != nil:
		return err
	case unused:
		return e.say(adopted(i, 0, fmt.Sprintf("nothing to do: this is installation %s, a copy of %s\n", i.ID, i.CopiedFrom)))
	}
	return &usageError{
		msg:  fmt.Sprintf("this database looks like the database in which installation %s is at work", i.ID),
		hint: "add --unmarked if this database is a copy of the server's files: a snapshot of a volume, or pg_basebackup without recovery",
	}
}

// confirmAdopt prints what would happen in the database, and asks the user. It returns an error if the user does not agree, or if
// there is no terminal to ask on.
func (e *env) confirmAdopt(ctx context.Context, url, database string, i *migrations.Installation, o adoptOptions) error {
	if !e.StdinTTY || !e.StderrTTY {
		return &usageError{msg: "migrate adopt decides about open runs and asks first, but there is no terminal", hint: "add --yes to go on without the question"}
	}
	open, err := migrations.OpenRuns(ctx, url, e.migrationLog())
	if err != nil {
		return err
	}
	if o.moved {
		fmt.Fprintf(e.Stderr, "Installation %s goes on in %s with %s. Its original must be gone: otherwise these runs run twice.\n", i.ID, database, runview.Count(int(open), "open run"))
	} else {
		fmt.Fprintf(e.Stderr, "%s becomes a separate installation, and %s in it are canceled. Installation %s goes on with these runs in its own database.\n", database, runview.Count(int(open), "open run"), i.ID)
	}
	return e.confirm(ctx)
}

func (e *env) adopt(ctx context.Context, url string, was *migrations.Installation, o adoptOptions) error {
	var canceled int64
	var err error
	if o.moved {
		err = migrations.Adopt(ctx, url, was, e.migrationLog())
	} else {
		canceled, err = migrations.AdoptCopy(ctx, url, was, e.migrationLog())
	}
	if err != nil {
		return err
	}
	is, err := migrations.InstallationOf(ctx, url, e.migrationLog())
	if err != nil {
		return err
	}
	text := fmt.Sprintf("installation %s goes on here\n", is.ID)
	if !o.moved {
		text = fmt.Sprintf("this is installation %s now, a copy of %s; %s canceled\n", is.ID, is.CopiedFrom, runview.Count(int(canceled), "open run"))
	}
	return e.say(adopted(is, canceled, text))
}

type jsonAdopted struct {
	jsonInstallation

	Canceled int64 `json:"canceled"`
}

func adopted(i *migrations.Installation, canceled int64, text string) answer {
	return answer{object: jsonAdopted{installationJSON(i), canceled}, ids: []string{i.ID}, text: text}
}

// jsonInstallation is an installation in -o json. Fields may be added, never renamed.
type jsonInstallation struct {
	ID         string    `json:"id"`
	Served     jsonPlace `json:"served"` // where workers served it; before the first worker, where it was made
	Here       jsonPlace `json:"here"`
	MayBeCopy  bool      `json:"may_be_copy"`
	CopiedFrom *string   `json:"copied_from"`
}

// jsonPlace is the place of a database. Server is a text, since system identifiers have more digits than many JSON readers
// keep.
type jsonPlace struct {
	Server   string `json:"server"`
	Database int64  `json:"database"`
	Timeline int64  `json:"timeline"`
}

func installationJSON(i *migrations.Installation) jsonInstallation {
	place := func(p migrations.Place) jsonPlace { return jsonPlace{decimal(p.Server), p.Database, p.Timeline} }
	return jsonInstallation{ID: i.ID, Served: place(i.Served), Here: place(i.Here), MayBeCopy: i.Judge(false) != nil, CopiedFrom: runview.TextOrNull(i.CopiedFrom)}
}

// installationText describes an installation on a line. If the database may be a copy, it adds that problem and what to do.
func installationText(i *migrations.Installation) string {
	if wrong, ok := errors.AsType[*migrations.CopyError](i.Judge(false)); ok {
		return fmt.Sprintf("installation %s\n%s.\n%s.\n", i.ID, wrong.Message(), wrong.Hint())
	}
	return fmt.Sprintf("installation %s: %v\n", i.ID, i.Here)
}
