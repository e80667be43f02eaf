package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// line is a parsed command line.
type line struct {
	path   []*cli.Command // the commands typed, outermost first
	global []string       // flags of the program, each with its value in one word
	own    []string       // flags of the command, each with its value in one word
	args   []string
	help   bool
}

// words returns the command line again, behind the name of the program, in the only order that urfave/cli understands: it takes no
// flag behind an argument, and no global flag behind a command. Without this, `status 42 -o json` would print a table.
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

// arrange parses a command line. It returns a usageError for mistakes that urfave/cli reports late, badly, or not at all: unknown
// commands and flags, missing values, surplus arguments.
func arrange(app *cli.App, words []string) (line, error) {
	a := argParser{app: app, rest: asCommand(words)}
	for len(a.rest) > 0 {
		word := a.rest[0]
		a.rest = a.rest[1:]
		if err := a.take(word); err != nil {
			return a.line, err
		}
	}
	return a.line, a.finish()
}

// asCommand rewrites `help X` to `X --help`, `--version` to `version`, and no words to `--help`. It returns any other words
// unchanged.
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

type argParser struct {
	line
	app  *cli.App
	rest []string
}

func (a *argParser) take(word string) error {
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

// plain appends word to a.path if it names a command that may follow there, otherwise to a.args. After backfill both may follow. It
// returns a usageError for a word that should be a command and is not.
func (a *argParser) plain(word string) error {
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

// flag joins a flag and its value, which it takes from a.rest, into one word. It adds the word to the flags of the program or to
// those of the command. It returns a usageError for an unknown flag and for a missing value.
func (a *argParser) flag(word string) error {
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

// given finds the flag that word names, and its value if the word has one: --flag, --flag=value, -f, -f=value or -fvalue. It
// reports false if there is no such flag.
func (a *argParser) given(word string) (given, bool) {
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

// isFlag reports whether word begins with -- and names a known flag, such as --output or --output=json. Such a word is hardly the
// value of the flag before it.
func (a *argParser) isFlag(word string) bool {
	if !strings.HasPrefix(word, "--") {
		return false
	}
	name, _, _ := strings.Cut(word[2:], "=")
	found, _ := a.lookup(name)
	return found != nil
}

func (a *argParser) lookup(name string) (found cli.Flag, global bool) {
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

func (a *argParser) unknownFlag(word string) error {
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

// finish makes the checks that need the whole line. It returns a usageError if no command is given, or if the command takes no
// arguments and there are some. With --help it checks nothing.
func (a *argParser) finish() error {
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

const (
	latestWord = "@latest"
	runHint    = "`oarlock list` shows the runs you may see"
)

// runChoices complete an argument that names a run.
var runChoices = []string{latestWord + "\tthe newest run"}

// runArg names a run on a command line: 41 or @latest.
type runArg struct {
	id     queue.RunID
	latest bool
}

// looksLikeRun reports whether word begins with a digit or is @latest. Then it is meant as a run, since no step begins with a
// digit.
func looksLikeRun(word string) bool {
	return word != "" && (word[0] >= '0' && word[0] <= '9' || word == latestWord)
}

func parseRun(word string) (runArg, error) {
	if word == latestWord {
		return runArg{latest: true}, nil
	}
	id, err := strconv.ParseInt(word, 10, 64)
	if err != nil || id < 1 {
		hint := cmp.Or(config.DidYouMean(word, []string{latestWord}), "`oarlock list` shows the numbers of runs")
		return runArg{}, &usageError{msg: fmt.Sprintf("a run is a number or %s, not %q", latestWord, word), hint: hint}
	}
	return runArg{id: queue.RunID(id)}, nil
}

// oneRun returns the run that the only argument of a command names. It returns a usageError if there is not exactly one argument,
// or if that is no run.
func oneRun(command string, args []string) (runArg, error) {
	if len(args) != 1 {
		return runArg{}, &usageError{msg: fmt.Sprintf("%s needs one run, got %d", command, len(args)), hint: "name the run by its number or by " + latestWord}
	}
	return parseRun(args[0])
}

// find returns the number of the run, without checking that the run exists. For @latest it returns the newest run that the user may
// see, or a notFound failure if there is none.
func (r runArg) find(ctx context.Context, store *queue.Store) (queue.RunID, error) {
	if !r.latest {
		return r.id, nil
	}
	page, err := store.List(ctx, queue.Filter{Limit: 1})
	if err != nil {
		return 0, err
	}
	if len(page.Runs) == 0 {
		message, hint := noRuns(ctx, store)
		return 0, &failure{kind: notFound, err: errors.New(message), hint: hint}
	}
	return page.Runs[0].ID, nil
}

// noRuns returns a message and a hint for a user to whom no run is visible.
func noRuns(ctx context.Context, store *queue.Store) (message, hint string) {
	if rights, err := store.Rights(ctx); err == nil && rights.OnlyApproves() {
		return "there is no run that you may see", "`oarlock approvals` lists the approvals that wait for you"
	}
	return "there are no runs yet", "`oarlock enqueue DAG` asks for a run"
}

// target is the parsed arguments of a command: runs, and perhaps a step or an item of it.
type target struct {
	runs       []runArg
	step, item string
}

// stepName matches a step, a step that replaces another one, and a handler: load, search~1, @exit.
var stepName = regexp.MustCompile(`^(@?[a-z][a-z0-9_-]*)(~[0-9]{1,4})?$`)

// parseTarget parses the arguments RUN… [STEP[/item]] of a command. It returns a usageError for any other word, and for a step
// without a run. No words are no error.
func parseTarget(command string, words []string) (target, error) {
	var t target
	for _, word := range words {
		switch {
		case looksLikeRun(word) && t.step != "":
			return t, &usageError{msg: fmt.Sprintf("run %s comes after step %s", word, t.step), hint: "name all runs first, then one step"}
		case looksLikeRun(word):
			run, err := parseRun(word)
			if err != nil {
				return t, err
			}
			t.runs = append(t.runs, run)
		case t.step != "":
			return t, &usageError{msg: fmt.Sprintf("%s takes one step, got %s and %s", command, t.step, word)}
		default:
			t.step, t.item, _ = strings.Cut(word, "/")
			if !stepName.MatchString(t.step) {
				return t, &usageError{
					msg:  fmt.Sprintf("%q is neither a run nor a step", word),
					hint: "a run is a number or " + latestWord + ", a step is like load, load/item, search~1 or @exit",
				}
			}
		}
	}
	if t.step != "" && len(t.runs) == 0 {
		return t, &usageError{msg: fmt.Sprintf("step %s has no run before it", t.step), hint: "name the run of the step first, like `" + program + " " + command + " 41 " + t.step + "`"}
	}
	return t, nil
}

// find returns the numbers of the runs, each once. It reads the database for @latest.
func (t target) find(ctx context.Context, store *queue.Store) ([]queue.RunID, error) {
	var ids []queue.RunID
	seen := map[queue.RunID]bool{}
	for _, run := range t.runs {
		id, err := run.find(ctx, store)
		if err != nil {
			return nil, err
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}

const timeAbout = `A TIME is now, a date such as 2026-11-20 for its midnight, or '2026-11-20 06:00', in the schedule's zone. RFC 3339
works too, like 2026-11-20T06:00:00Z.
`

// absolute parses the value of a flag as a time, and reports false if the text is none. A time without an offset is in zone. zone
// is nil if this machine does not know it; such a time is then a usageError.
func absolute(flag, text string, now time.Time, zone *time.Location) (at time.Time, ok bool, err error) {
	at, ok, err = runview.ReadTime(text, now, zone)
	return at, ok, orNoZone(flag, text, err)
}

func orNoZone(flag, text string, err error) error {
	if !errors.Is(err, runview.ErrUnknownZone) {
		return err
	}
	return &usageError{msg: flag + ": this machine does not know the time zone for " + text, hint: "give the time with an offset, like 2026-11-20T03:00:00+01:00"}
}

// upcoming parses the value of a flag like --at: a time, or a duration from now such as +10m. It returns the zero time for "", and
// a usageError for any other text. A time without an offset is in zone. zone is nil if this machine does not know it; such a time
// is then a usageError, too.
func upcoming(flag, text string, now time.Time, zone *time.Location) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, ok, err := runview.ReadUpcoming(text, now, zone); ok || err != nil {
		return at, orNoZone(flag, text, err)
	}
	return time.Time{}, &usageError{
		msg:  fmt.Sprintf("%s: %q is neither a time nor a duration from now", flag, text),
		hint: "write a time like now, 2026-11-20, '2026-11-20 06:00', 2026-11-20T06:00:00Z, or a duration from now like +10m or +1d",
	}
}

// duration parses the value of a flag like --timeout, in the units of DAG files, such as 90s or 1d12h. It returns 0 for "", and a
// usageError for any other text.
func duration(flag, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := dagspec.ParseDuration(text)
	if err != nil {
		return 0, &usageError{msg: fmt.Sprintf("%s: %q is no duration", flag, text), hint: "write a duration like 90s, 10m or 1d12h"}
	}
	return d.Std(), nil
}

// pairs parses the values of a repeatable flag like -p day=2026-11-20. It returns nil if there are none, and a usageError for a
// word that is not NAME=VALUE or a name that comes twice.
func pairs(flag string, words []string) (map[string]string, error) {
	var all map[string]string
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return nil, &usageError{msg: fmt.Sprintf("%s wants NAME=VALUE, not %q", flag, word)}
		}
		if _, twice := all[name]; twice {
			return nil, &usageError{msg: fmt.Sprintf("%s gives %s twice", flag, name)}
		}
		if all == nil {
			all = map[string]string{}
		}
		all[name] = value
	}
	return all, nil
}

// moment parses the value of --since: a time in the local zone, or how long ago it is, like 2h. It returns the zero time for "",
// and a usageError for any other text.
func moment(word string, now time.Time) (time.Time, error) {
	return momentIn("--since", word, now, time.Local)
}

// momentIn parses the value of a flag: a time, or how long ago it is, like 2h. It returns the zero time for "", and a usageError
// for any other text. A time without an offset is in zone. zone is nil if this machine does not know it; such a time is then a
// usageError, too.
func momentIn(flag, word string, now time.Time, zone *time.Location) (time.Time, error) {
	if word == "" {
		return time.Time{}, nil
	}
	at, ok, err := runview.ReadPast(word, now, zone)
	if err == nil && !ok {
		err = &usageError{
			msg:  fmt.Sprintf("%s: %q is neither a duration nor a time", flag, word),
			hint: "write a duration ago like 2h or 7d, or a time like now, 2026-11-20, '2026-11-20 03:00' or 2026-11-20T03:00:00Z",
		}
	}
	return at, orNoZone(flag, word, err)
}
