package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/oarlock-dev/oarlock/internal/pglocal"
	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/queue"
)

// store opens the store of the database in the settings, and starts the private server if that is the database. The caller must
// call shut, unless there is an error.
func (e *env) store(ctx context.Context) (store *queue.Store, shut func(), err error) {
	url, _, err := e.database(ctx)
	if err != nil {
		return nil, nil, err
	}
	store, err = queue.Open(ctx, queue.Config{URL: url, OwnSchema: true})
	if err != nil {
		return nil, nil, err
	}
	return store, store.Close, nil
}

// withStore opens the store of the database in the settings, calls use with it, and closes it.
func (e *env) withStore(ctx context.Context, use func(*queue.Store) error) error {
	store, shut, err := e.store(ctx)
	if err != nil {
		return err
	}
	defer shut()
	return use(store)
}

// privateWord is the value of database_url that means this user's private server.
const privateWord = "private"

// linkVariables are libpq's variables that name a database without the setting.
var linkVariables = []string{"PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE"}

// isPrivate reports whether the database is this user's private one: because the setting names it, or because no source
// names a database and either this command makes a private one or one exists.
func (e *env) isPrivate() bool {
	switch text := e.settings.Text("database_url"); {
	case text != "":
		return text == privateWord
	case slices.ContainsFunc(linkVariables, e.isSet):
		return false
	}
	return e.makesPrivate || e.privateFolder() != ""
}

// unnamed reports whether neither the setting nor libpq's variables name a database.
func (e *env) unnamed() bool {
	return e.settings.Text("database_url") == "" && !slices.ContainsFunc(linkVariables, e.isSet)
}

func (e *env) isSet(variable string) bool {
	text, ok := e.Lookup(variable)
	return ok && text != ""
}

// privateFolder returns the folder of this user's private server, or "" if there is no such server yet.
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

// besides is the suffix of the folder for root's private server. It is used if the state folder is closed to the user that
// the server runs as.
const besides = "-pg"

// newPrivateFolder returns the folder in which a private server is to be made. For root it is beside the state folder if other
// users cannot enter that one, because the server does not run as root.
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

// startPrivate starts the private server, or joins it if other commands use it already, and returns its URL. If this command uses
// it already, startPrivate only returns the URL. leave ends this command's use.
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

// progress tells the user what a long step is doing.
func (e *env) progress(text string) {
	e.remark("%s", text)
}

// migratePrivate migrates the database to the schema of this program if it is the private one. It does nothing for any other
// database, which only `oarlock migrate up` migrates.
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

// leave ends the command's use of the private server, if it used one. An error is only logged.
func (e *env) leave(ctx context.Context) {
	if e.server == nil {
		return
	}
	if err := e.server.Stop(ctx); err != nil && e.log != nil {
		e.log.Warn("the private server does not stop", "err", err)
	}
}

// sayUnnamed returns hint, or another hint if no database was named: then the user needs to know how to name one.
func (e *env) sayUnnamed(hint string) string {
	if e.settings == nil || !e.unnamed() {
		return hint
	}
	return "no database is named: set DATABASE_URL, or let `oarlock run FILE` or `oarlock dev` make a private one"
}

// sayPrivate returns hint. If the command used the private database and the user did not name it, it adds that to the hint.
func (e *env) sayPrivate(hint string) string {
	if e.server == nil || e.settings.Text("database_url") != "" {
		return hint
	}
	where := "this is the private database in " + e.server.Dir() + ": set DATABASE_URL to use another database"
	if hint == "" {
		return where
	}
	return hint + "; " + where
}
