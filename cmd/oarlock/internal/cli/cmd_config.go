package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/internal/runview"
)

func newConfigCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "config",
		Usage: "show the settings in force",
		Description: manual{
			about:    `Oarlock takes each setting from the first place that has it: flag, OARLOCK_* variable, settings file, default.`,
			examples: []string{"oarlock config show --origin"},
			exits:    configExits,
		}.String(),
		Subcommands: []*cli.Command{newConfigShowCommand(e)},
	}
}

var configExits = []exitNote{
	{exitOK, "the settings are valid"},
	usageNote,
	{exitNotFound, "the settings file that was named cannot be read"},
	settingsNote,
}

func newConfigShowCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "show",
		Usage: "print every setting, with passwords hidden",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "origin", Usage: "print the place that each value comes from; JSON always has the place"},
		},
		Description: manual{
			about: `Prints the settings in force, and connects to nothing. With --origin the command also names
the place that each setting comes from.`,
			examples: []string{"oarlock config show", "oarlock config show --origin", "oarlock config show -o json"},
			exits:    configExits,
		}.String(),
		Action: func(c *cli.Context) error { return runConfigShow(e, c.Bool("origin")) },
	}
}

type jsonSetting struct {
	Key    string  `json:"key"`
	Value  string  `json:"value"`
	Origin string  `json:"origin"` // flag, env, file, default
	Where  *string `json:"where"`  // the flag, the variable, or path:line
}

func runConfigShow(e *env, origin bool) error {
	t := term.Table{Head: []string{"KEY", "VALUE"}}
	if origin {
		t.Head = []string{"KEY", "ORIGIN", "VALUE"} // the value may be long, so it is last
	}
	a := answer{ids: []string{}}
	settings := []jsonSetting{}
	e.warnOfSettings()
	for _, v := range e.settings.Values() {
		s := e.setting(v)
		settings = append(settings, s)
		a.lines = append(a.lines, s)
		a.ids = append(a.ids, s.Key)
		row := []string{s.Key, cmp.Or(s.Value, "–")}
		if origin {
			row = slices.Insert(row, 1, e.stdoutPaint().Dim(s.origin()))
		}
		t.Rows = append(t.Rows, row)
	}
	a.object, a.text = settings, foldLast(t, e.pageColumns())
	return e.say(a)
}

// foldLast aligns a table, and folds lines that are wider than columns below the start of their last cell. 0 columns means no
// limit.
func foldLast(t term.Table, columns int) string {
	rows := append([][]string{t.Head}, t.Rows...)
	under := 0
	for i := range len(t.Head) - 1 {
		most := 0
		for _, row := range rows {
			most = max(most, term.Width(row[i]))
		}
		under += most + term.ColumnGap
	}
	var b strings.Builder
	for line := range strings.Lines(t.String()) {
		b.WriteString(term.Fold(strings.TrimSuffix(line, "\n"), columns, under) + "\n")
	}
	return b.String()
}

// setting describes the value of a setting. For database_url without a value it shows the place that names the database instead:
// libpq's variables, or this user's private database.
func (e *env) setting(v config.Value) jsonSetting {
	s := jsonSetting{v.Key.Name, v.Shown(), string(v.Origin.Kind), runview.TextOrNull(v.Origin.Where)}
	if names := e.libpqVariables(); v.Key.Name == "database_url" && v.Text == "" && len(names) > 0 {
		s.Origin, s.Where = string(config.FromEnv), runview.TextOrNull(strings.Join(names, " "))
	}
	if v.Key.Name == "database_url" && v.Text == "" && e.isPrivate() {
		s.Value, s.Where = privateWord, runview.TextOrNull(e.privateFolder())
	}
	return s
}

func (s jsonSetting) origin() string {
	if s.Where == nil {
		return s.Origin
	}
	return fmt.Sprintf("%s %s", s.Origin, *s.Where)
}

func (e *env) libpqVariables() []string {
	var set []string
	for _, name := range []string{"PGSERVICE", "PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE"} {
		if text, ok := e.Lookup(name); ok && text != "" {
			set = append(set, name)
		}
	}
	return set
}
