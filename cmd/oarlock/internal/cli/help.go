package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/internal/runview"
)

// manual is the long help of a command.
type manual struct {
	about    string
	examples []string
	exits    []exitNote
}

// exitNote explains one exit status of a command.
type exitNote struct {
	exit exit
	when string
}

// Exit statuses that many commands share.
var (
	inForceNote     = exitNote{exitOK, "the change is in force: this command or an earlier command made the change"}
	deniedNote      = exitNote{exitError, "this user lacks a right that the command needs, or another error happened"}
	usageNote       = exitNote{exitUsage, "the command line is invalid"}
	unreachableNote = exitNote{exitUnreachable, "the database cannot be reached or used: type `oarlock doctor`"}
	settingsNote    = exitNote{exitInvalid, "a setting in the environment or the settings file is wrong"}
)

// String returns the text for the Description of the command: the manual, the examples, and the exit statuses.
func (m manual) String() string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(m.about))
	b.WriteString("\n\nEXAMPLES\n")
	for _, line := range m.examples {
		b.WriteString("  " + line + "\n")
	}
	b.WriteString("\nEXIT STATUS\n")
	for _, note := range m.exits {
		fmt.Fprintf(&b, "  %-3d  %s\n", note.exit, note.when)
	}
	return strings.TrimRight(b.String(), "\n")
}

const programAbout = `Oarlock runs DAGs from your Postgres. An application inserts a row. A worker claims the run, walks its graph
and records each step in Postgres. Applications and workers share only Postgres.

EXAMPLES
  oarlock run etl.yaml      # run a file here and now, in a private Postgres
  oarlock status @latest    # show how the newest run went
  oarlock dev dags/         # apply all files of a folder and run them, until Ctrl-C
  oarlock doctor            # check the database of DATABASE_URL; then: oarlock migrate up, oarlock worker

SETTINGS
  Oarlock takes a setting from the first place that has it: flag, variable, settings file, default. For log_level
  these places are --log-level, OARLOCK_LOG_LEVEL and the line "log_level: debug". DATABASE_URL also names the database.
  Parts that the URL leaves out come from PG* variables, ~/.pgpass and service files, as for psql. NO_COLOR turns
  colours off. The settings file is the file that --config or OARLOCK_CONFIG names. Without a name it is
  $XDG_CONFIG_HOME/oarlock/config.yaml (usually ~/.config/oarlock/config.yaml), else /etc/oarlock/config.yaml.
  "oarlock config show --origin" says where each value comes from.

EXIT STATUS
  0    the command succeeded             5    database cannot be reached or used
  1    an error                          6    a file, setting or parameter is invalid
  2    the command line is invalid       10   the awaited run failed
  3    not found                         11   the awaited run was canceled
  4    conflict, or in the wrong state   124  waiting took too long
  130  SIGINT                            143  SIGTERM`

// helpText returns the help of the program, or of the command at the end of path.
func helpText(app *cli.App, path []*cli.Command) string {
	var b strings.Builder
	if len(path) == 0 {
		fmt.Fprintf(&b, "%s %s\n\nUSAGE\n  %s COMMAND [flags]\n\n", app.Name, app.Usage, app.Name)
		writeCommands(&b, app.Commands)
		writeFlags(&b, "FLAGS", app.Flags)
		b.WriteString("\n" + programAbout + "\n")
		return b.String()
	}
	c := path[len(path)-1]
	name := app.Name + " " + pathName(path)
	fmt.Fprintf(&b, "%s: %s\n\nUSAGE\n  %s\n\n", name, c.Usage, usageLine(name, c))
	writeCommands(&b, c.Subcommands)
	writeFlags(&b, "FLAGS", c.Flags)
	if len(c.Flags) > 0 {
		b.WriteString("\n")
	}
	b.WriteString(c.Description + "\n\nFor the flags every command has, see `" + app.Name + " --help`.\n")
	return b.String()
}

func usageLine(name string, c *cli.Command) string {
	switch {
	case len(c.Subcommands) > 0 && c.ArgsUsage != "":
		return name + " " + c.ArgsUsage + " [flags], or " + name + " COMMAND [flags]"
	case len(c.Subcommands) > 0 && c.Action != nil:
		return name + " [COMMAND] [flags]"
	case len(c.Subcommands) > 0:
		return name + " COMMAND [flags]"
	}
	switch {
	case strings.HasPrefix(c.ArgsUsage, "--"): // the words behind it belong to another program
		return name + " [flags] " + c.ArgsUsage
	case c.ArgsUsage != "":
		name += " " + c.ArgsUsage
	}
	return name + " [flags]"
}

func writeCommands(b *strings.Builder, commands []*cli.Command) {
	if len(commands) == 0 {
		return
	}
	var rows [][]string
	for _, c := range commands {
		rows = append(rows, []string{"  " + c.Name, c.Usage})
	}
	b.WriteString("COMMANDS\n" + term.AlignRows(rows) + "\n")
}

func writeFlags(b *strings.Builder, title string, flags []cli.Flag) {
	if len(flags) == 0 {
		return
	}
	rows := [][]string{}
	for _, f := range flags {
		rows = append(rows, flagRow(f))
	}
	b.WriteString(title + "\n" + term.AlignRows(rows))
}

func flagRow(f cli.Flag) []string {
	var names []string
	for _, name := range f.Names() {
		names = append([]string{dashed(name)}, names...)
	}
	spelling := strings.Join(names, ", ")
	documented, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return []string{"  " + spelling}
	}
	placeholder, text := placeholder(documented.GetUsage())
	if documented.TakesValue() {
		spelling += " " + placeholder
		if d := documented.GetDefaultText(); d != "" && d != "0" {
			text += " (default " + d + ")"
		}
	}
	return []string{"  " + spelling, text}
}

// placeholder returns the word in backquotes of a flag's usage, and the usage without the backquotes. Without backquotes the word
// is VALUE.
func placeholder(text string) (word, plain string) {
	before, rest, _ := strings.Cut(text, "`")
	word, after, found := strings.Cut(rest, "`")
	if !found {
		return "VALUE", text
	}
	return word, before + word + after
}

const variablePrefix = "OARLOCK_"

// otherVariables are the variables of Oarlock that are not settings: the first two are for users, Oarlock sets the others
// for tasks. See docs/environment.md.
var otherVariables = []string{
	"OARLOCK_CONFIG", "OARLOCK_PG_BIN",
	"OARLOCK_RUN_ID", "OARLOCK_RUN_UID", "OARLOCK_DAG", "OARLOCK_STEP", "OARLOCK_ITEM", "OARLOCK_ATTEMPT", "OARLOCK_PUBLISH_TRY", "OARLOCK_FENCE",
	"OARLOCK_IDEMPOTENCY_KEY", "OARLOCK_OUTPUT", "OARLOCK_UPSTREAM", "OARLOCK_RUN_STATE", "OARLOCK_FAILED_STEPS",
	"OARLOCK_LOGICAL_AT", "OARLOCK_PREVIOUS_LOGICAL_AT", "OARLOCK_SCHEDULE", "OARLOCK_SOURCE_DIR", "OARLOCK_WORKER_ID", "OARLOCK_BODY_ID", "OARLOCK_GUARD",
}

// sayMisspelled warns of variables that look like a misspelled setting. It prints nothing inside a task, in a driver
// process, or in another command's worker: there the parent process has warned already, or the user did not set the
// environment. It ignores a variable that resembles no known name, because the variable may belong to another program.
// Kubernetes, for example, sets variables for a service named oarlock.
func (e *env) sayMisspelled(args []string) {
	if e.Environ == nil || slices.Contains(args, "--until-eof") {
		return
	}
	for _, name := range []string{"OARLOCK_RUN_ID", "OARLOCK_WORKER_ID", "OARLOCK_GUARD"} {
		if text, _ := e.Lookup(name); text != "" {
			return
		}
	}
	known := slices.Clone(otherVariables)
	for _, k := range allKeys() {
		known = append(known, k.Env...)
	}
	var words []string
	for _, name := range known {
		if word, ok := strings.CutPrefix(name, variablePrefix); ok {
			words = append(words, word)
		}
	}
	for _, pair := range e.Environ() {
		name, text, _ := strings.Cut(pair, "=")
		word, ours := strings.CutPrefix(name, variablePrefix)
		near := config.Near(word, words)
		if !ours || text == "" || near == "" || slices.Contains(words, word) {
			continue
		}
		said := fmt.Sprintf("%s is no setting: did you mean %s%s?", runview.Printable(name), variablePrefix, near)
		if slices.Contains(args, "worker") {
			e.log.Warn(said)
		} else {
			e.remark("%s", said)
		}
	}
}
