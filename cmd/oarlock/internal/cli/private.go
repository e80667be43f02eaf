package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/oarlock-dev/oarlock/internal/pglocal"
	"github.com/oarlock-dev/oarlock/migrations"
)

// privateWord is how a setting names the server of this user's own.
const privateWord = "private"

// ways to a database besides the setting, as libpq has them.
var linkVariables = []string{"PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE"}

// isPrivate says whether the database is this user's private one: because somebody says so, or because nobody names another
// and this command makes one, or one is there.
func (e *env) isPrivate() bool {
	switch text := e.settings.Text("database_url"); {
	case text != "":
		return text == privateWord
	case slices.ContainsFunc(linkVariables, e.isSet):
		return false
	}
	return e.makesPrivate || e.privateFolder() != ""
}

// unnamed reports whether nothing says which database is meant.
func (e *env) unnamed() bool {
	return e.settings.Text("database_url") == "" && !slices.ContainsFunc(linkVariables, e.isSet)
}

func (e *env) isSet(variable string) bool {
	text, ok := e.Lookup(variable)
	return ok && text != ""
}

// privateFolder is where the private server of this user is kept; "" if there is none.
func (e *env) privateFolder() string {
	var places []string
	if dir := e.settings.Text("state_dir"); dir != "" {
		places = []string{e.absolute(dir)}
	} else if dir, ok := e.Lookup("XDG_STATE_HOME"); ok && filepath.IsAbs(dir) {
		places = []string{filepath.Join(dir, "oarlock")}
	} else {
		places = e.statePlaces()
	}
	for _, place := range places {
		for _, folder := range []string{filepath.Join(place, "pg"), place + besides} {
			if info, err := os.Stat(filepath.Join(folder, "state.json")); err == nil && info.Mode().IsRegular() {
				return folder
			}
		}
	}
	return ""
}

// besides is what the folder of root's private server is called next to a folder of state that is closed to the server's user.
const besides = "-pg"

// newPrivateFolder is where a private server is to be made.
func (e *env) newPrivateFolder() (string, error) {
	state, err := e.stateDir()
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(state); err == nil && os.Getuid() == 0 && info.Mode().Perm()&0o001 == 0 {
		return state + besides, nil
	}
	return filepath.Join(state, "pg"), nil
}

// startPrivate starts the private server, or joins those who use it. It is left when the command ends.
func (e *env) startPrivate(ctx context.Context) (url string, err error) {
	if e.server != nil {
		return e.server.URL(""), nil
	}
	folder := e.privateFolder()
	if folder == "" {
		if folder, err = e.newPrivateFolder(); err != nil {
			return "", err
		}
	}
	if e.server, err = pglocal.Start(ctx, pglocal.Config{Dir: folder, Log: e.log, Say: e.progress}); err != nil {
		return "", err
	}
	return e.server.URL(""), nil
}

// progress is told to people while they wait.
func (e *env) progress(text string) {
	e.remark("%s", text)
}

// migratePrivate brings the private database to the schema of this program. Others are never migrated unasked.
func (e *env) migratePrivate(ctx context.Context) error {
	if !e.isPrivate() {
		return nil
	}
	url, err := e.startPrivate(ctx)
	if err != nil {
		return err
	}
	at, err := migrations.Version(ctx, url)
	if err != nil || at >= migrations.MaxVersion {
		return err
	}
	if err := migrations.Roles(ctx, url); err != nil {
		return fmt.Errorf("prepare the private database: %w", err)
	}
	if _, err := migrations.Up(ctx, url); err != nil {
		return fmt.Errorf("prepare the private database: %w", err)
	}
	return nil
}

// leave is the end of what a command holds on to.
func (e *env) leave(ctx context.Context) {
	if e.server == nil {
		return
	}
	if err := e.server.Stop(ctx); err != nil && e.log != nil {
		e.log.Warn("the private server does not stop", "err", err)
	}
}

// sayUnnamed tells whoever named no database at all, and reaches none where libpq would look.
func (e *env) sayUnnamed(hint string) string {
	if e.settings == nil || !e.unnamed() {
		return hint
	}
	return "no database is named: set DATABASE_URL, or let `oarlock run FILE` or `oarlock dev` make a private one"
}

// sayPrivate tells who misses something that it was looked for in the private database, which nobody had named.
func (e *env) sayPrivate(hint string) string {
	if e.server == nil || e.settings.Text("database_url") != "" {
		return hint
	}
	where := "this is the private database in " + e.server.Dir() + ": set DATABASE_URL for another"
	if hint == "" {
		return where
	}
	return hint + "; " + where
}
