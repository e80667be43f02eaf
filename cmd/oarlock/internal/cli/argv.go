package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
)

// line is a parsed command line.
type line struct {
	path   []*cli.Command // the commands typed, outermost first
	global []string       // flags of the program, each with its value in one word
	own    []string       // flags of the command, each with its value in one word
	args   []string
	help   bool
}

// words returns the words in the only order that urfave/cli understands: it takes no flag behind an argument, and no global
// flag behind a command. Without this, `status 42 -o json` would print a table.
func (l line) words(program string) []string {
	words := append([]string{program}, l.global...)
	for _, c := range l.path {
		words = append(words, c.Name)
	}
	words = append(words, l.own...)
	if len(l.args) > 0 {
		words = append(append(words, "--"), l.args...)
	}
	return words
}

func (l line) command() *cli.Command {
	if len(l.path) == 0 {
		return nil
	}
	return l.path[len(l.path)-1]
}

// arrange parses a command line. It checks what urfave/cli checks late, badly, or not at all: unknown commands and flags,
// missing values, surplus arguments.
func arrange(app *cli.App, words []string) (line, error) {
	a := arranger{app: app, rest: asCommand(words)}
	for len(a.rest) > 0 {
		word := a.rest[0]
		a.rest = a.rest[1:]
		if err := a.take(word); err != nil {
			return a.line, err
		}
	}
	return a.line, a.finish()
}

// asCommand rewrites `help X` to `X --help`, and `--version` to `version`.
func asCommand(words []string) []string {
	switch {
	case len(words) == 0:
		return []string{"--help"}
	case words[0] == "help":
		return append(slices.Clone(words[1:]), "--help")
	case words[0] == "--version":
		return append([]string{"version"}, words[1:]...)
	}
	return words
}

type arranger struct {
	line
	app  *cli.App
	rest []string
}

func (a *arranger) take(word string) error {
	switch {
	case word == "--":
		a.args, a.rest = append(a.args, a.rest...), nil
		return nil
	case word == "-h" || word == "--help" || word == "-help":
		a.help = true
		return nil
	case len(word) > 1 && word[0] == '-':
		return a.flag(word)
	}
	return a.plain(word)
}

// otherWords maps words that users often try to the names of the commands.
var otherWords = map[string]string{"runs": "list", "ls": "list"}

// plain takes a word as a command as long as commands may follow, and then as an argument. backfill takes both.
func (a *arranger) plain(word string) error {
	known, takesArgs := a.app.Commands, false
	if c := a.command(); c != nil {
		known, takesArgs = c.Subcommands, c.ArgsUsage != ""
	}
	if len(a.args) == 0 {
		for _, c := range known {
			if c.HasName(word) {
				a.path = append(a.path, c)
				return nil
			}
		}
	}
	if len(known) == 0 || takesArgs {
		a.args = append(a.args, word)
		return nil
	}
	what := strings.TrimSpace(pathName(a.path) + " command")
	hint := config.DidYouMean(word, commandNames(known))
	if meant := otherWords[word]; meant != "" && len(a.path) == 0 {
		hint = fmt.Sprintf("did you mean %q?", meant)
	}
	return &usageError{msg: fmt.Sprintf("unknown %s %q", what, word), hint: hint}
}

// flag joins a flag and its value into one word, and adds it to the flags of the program or to those of the command.
func (a *arranger) flag(word string) error {
	g, found := a.given(word)
	if !found {
		return a.unknownFlag(word)
	}
	clean := "--" + g.flag.Names()[0]
	switch {
	case g.inline:
		clean += "=" + g.value
	case takesValue(g.flag):
		if len(a.rest) == 0 || a.isFlag(a.rest[0]) {
			return &usageError{msg: fmt.Sprintf("flag %s needs a value", word)}
		}
		clean += "=" + a.rest[0]
		a.rest = a.rest[1:]
	}
	if g.global {
		a.line.global = append(a.line.global, clean)
	} else {
		a.own = append(a.own, clean)
	}
	return nil
}

// given is a flag as the user typed it; inline: its value is part of the same word.
type given struct {
	flag   cli.Flag
	global bool
	value  string
	inline bool
}

// given understands --flag, --flag=value, -f, -f=value and -fvalue.
func (a *arranger) given(word string) (given, bool) {
	name, value, inline := strings.Cut(strings.TrimLeft(word, "-"), "=")
	if flag, global := a.lookup(name); flag != nil {
		return given{flag, global, value, inline}, true
	}
	if word[1] != '-' {
		if flag, global := a.lookup(word[1:2]); flag != nil && takesValue(flag) {
			return given{flag, global, word[2:], true}, true
		}
	}
	return given{}, false
}

// isFlag reports whether word names a known flag. Then it is hardly the value of the flag before it.
func (a *arranger) isFlag(word string) bool {
	if !strings.HasPrefix(word, "--") {
		return false
	}
	name, _, _ := strings.Cut(word[2:], "=")
	found, _ := a.lookup(name)
	return found != nil
}

func (a *arranger) lookup(name string) (found cli.Flag, global bool) {
	named := func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }
	if c := a.command(); c != nil {
		if i := slices.IndexFunc(c.Flags, named); i >= 0 {
			return c.Flags[i], false
		}
	}
	if i := slices.IndexFunc(a.app.Flags, named); i >= 0 {
		return a.app.Flags[i], true
	}
	return nil, false
}

func (a *arranger) unknownFlag(word string) error {
	flag, _, _ := strings.Cut(word, "=")
	name := strings.TrimLeft(flag, "-")
	known := flagNames(a.app.Flags)
	if c := a.command(); c != nil {
		known = append(flagNames(c.Flags), known...)
	}
	hint := ""
	if near := config.Near(name, append(known, "help")); near != "" {
		hint = "did you mean " + dashed(near) + "?"
	} else if word[1] >= '0' && word[1] <= '9' {
		hint = "put `--` before an argument that begins with a dash"
	}
	return &usageError{msg: "unknown flag " + flag, hint: hint}
}

// finish makes the checks that need the whole line.
func (a *arranger) finish() error {
	c := a.command()
	switch {
	case a.help:
		return nil
	case c == nil:
		return &usageError{msg: "no command given"}
	case len(c.Subcommands) > 0 && c.Action == nil:
		return &usageError{msg: fmt.Sprintf("%s needs a command: %s", pathName(a.path), strings.Join(commandNames(c.Subcommands), ", "))}
	case c.ArgsUsage == "" && len(a.args) > 0:
		return &usageError{msg: fmt.Sprintf("%s takes no arguments, got %q", pathName(a.path), a.args[0])}
	}
	return nil
}

func pathName(path []*cli.Command) string {
	return strings.Join(commandNames(path), " ")
}

func commandNames(commands []*cli.Command) []string {
	var names []string
	for _, c := range commands {
		names = append(names, c.Name)
	}
	return names
}

func flagNames(flags []cli.Flag) []string {
	var names []string
	for _, f := range flags {
		names = append(names, f.Names()...)
	}
	return names
}

func takesValue(f cli.Flag) bool {
	documented, ok := f.(cli.DocGenerationFlag)
	return !ok || documented.TakesValue()
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func see(command string) string { return fmt.Sprintf("see `%s --help`", command) }
