package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/internal/pglink"
)

// settingKeys declares the settings that all commands share. A setting with a Flag is a global flag too.
func settingKeys() []config.Key {
	return []config.Key{
		{
			Name: "database_url", Flag: "--database-url", Env: []string{"OARLOCK_DATABASE_URL", "DATABASE_URL"},
			Usage: "Postgres `URL`, or private for this user's private server; parts that the URL leaves out come from PG* variables, ~/.pgpass and service files",
			Show:  pglink.Redact,
		},
		{
			Name: "output", Flag: "--output", Env: []string{"OARLOCK_OUTPUT"}, Default: "table",
			Usage: "print data as `FORMAT`", Allowed: []string{"table", "json", "jsonl", "id"},
		},
		{
			Name: "log_level", Flag: "--log-level", Env: []string{"OARLOCK_LOG_LEVEL"}, Default: "info",
			Usage: "log from this `LEVEL` on", Allowed: []string{"debug", "info", "warn", "error"},
		},
		{
			Name: "log_format", Flag: "--log-format", Env: []string{"OARLOCK_LOG_FORMAT"}, Default: "auto",
			Usage: "log as `FORMAT`; auto is text on a terminal and json elsewhere", Allowed: []string{"auto", "text", "json"},
		},
		{
			Name: "no_color", Flag: "--no-color", Env: []string{"OARLOCK_NO_COLOR", "NO_COLOR"}, Default: "false",
			Usage: "print no colours, even on a terminal", Allowed: []string{"true", "false"},
		},
	}
}

// allKeys are the settings of all commands.
func allKeys() []config.Key { return slices.Concat(settingKeys(), workerKeys(), webKeys()) }

// shortFlags are the letters of global flags.
var shortFlags = map[string]string{"output": "o"}

const configFlag = "config"

// globalFlags are the flags of the shared settings, and --config.
func globalFlags() []cli.Flag {
	flags := []cli.Flag{&cli.StringFlag{
		Name:  configFlag,
		Usage: "read settings from this `FILE` only",
	}}
	for _, k := range settingKeys() {
		flags = append(flags, settingFlag(k))
	}
	return flags
}

func settingFlag(k config.Key) cli.Flag {
	name := k.Flag[len("--"):]
	if k.Name == "no_color" {
		return &cli.BoolFlag{Name: name, Usage: k.Usage}
	}
	flag := &cli.StringFlag{Name: name, Usage: usageOf(k), DefaultText: k.Default}
	if short, ok := shortFlags[k.Name]; ok {
		flag.Aliases = []string{short}
	}
	return flag
}

// load decides the settings before a command runs, and warns of misspelled variables. It sets e.file, e.flags, e.settings and
// e.log.
func (e *env) load(c *cli.Context) (err error) {
	if e.file, err = e.settingsFile(c.String(configFlag)); err != nil {
		return err
	}
	e.flags = map[string][]string{}
	for _, k := range settingKeys() {
		if name := k.Flag[len("--"):]; c.IsSet(name) {
			e.flags[k.Name] = []string{fmt.Sprint(c.Value(name))}
		}
	}
	if err := e.decide(nil); err != nil {
		return err
	}
	e.log = newLogger(e)
	e.sayMisspelled(c.Args().Slice())
	return nil
}

// decide sets e.settings from the global flags, the flags of a command, the environment and the settings file. flags are the
// command's, by the name of the setting.
func (e *env) decide(flags map[string][]string) (err error) {
	all := maps.Clone(e.flags)
	maps.Copy(all, flags)
	keys := allKeys()
	e.settings, err = config.Load(keys, config.Sources{Flags: all, Lookup: e.variable, File: e.file})
	return err
}

// warnOfSettings logs a warning for each given setting that has no effect any more.
func (e *env) warnOfSettings() {
	for _, warning := range e.settings.Warnings() {
		e.log.Warn(warning)
	}
}

// settingsFile reads the file at path, or the file that $OARLOCK_CONFIG names if path is "". This file must exist. If neither names
// a file, it reads the first file that exists in the usual places, and returns nil if there is none.
func (e *env) settingsFile(path string) (*config.File, error) {
	if path == "" {
		path, _ = e.Lookup("OARLOCK_CONFIG")
	}
	if path == "" {
		return asUnreadable(config.Find(config.Places(e.Lookup)))
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(e.Dir, path)
	}
	return asUnreadable(config.Read(path))
}

func asUnreadable(file *config.File, err error) (*config.File, error) {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, &failure{kind: notFound, err: err, hint: "name a file that this user may read with --config or OARLOCK_CONFIG"}
	}
	return file, err
}

// variable reads an environment variable for a setting. NO_COLOR reads as true if it is not empty, and as absent otherwise
// (no-color.org).
func (e *env) variable(name string) (string, bool) {
	text, ok := e.Lookup(name)
	if name == "NO_COLOR" {
		return strconv.FormatBool(true), ok && text != ""
	}
	return text, ok
}

// emptyURL leaves the whole address to PG* variables, ~/.pgpass and service files.
const emptyURL = "postgres://"

// database returns the URL of the database in the settings, and its parsed form. If that is the private server, database starts it.
// It logs a warning if a password file is ignored.
func (e *env) database(ctx context.Context) (url string, link *pgx.ConnConfig, err error) {
	v := e.settings.Value("database_url")
	url = cmp.Or(v.Text, emptyURL)
	if e.isPrivate() {
		if url, err = e.startPrivate(ctx); err != nil {
			return "", nil, err
		}
	}
	link, err = pglink.Parse(url, pglink.Options{})
	if err != nil {
		hint := "a URL looks like postgres://user@host:5432/database"
		if v.Origin.Where != "" {
			hint += "; this value is from " + v.Origin.Where
		}
		return "", nil, &failure{kind: invalid, err: err, hint: hint}
	}
	if open := pglink.OpenPassfile(url); open != "" && link.Password == "" {
		e.log.Warn(fmt.Sprintf("password file %s is ignored, because other users can read this file: type chmod 600 %s", open, open))
	}
	return url, link, nil
}

func (e *env) plain() bool { return e.settings != nil && e.settings.Text("no_color") == "true" }
