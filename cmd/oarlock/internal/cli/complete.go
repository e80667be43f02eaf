package cli

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/internal/runview"
)

// completeWord is the command that the shell scripts call: `oarlock __complete WORD…`. The last word is the one under the
// cursor. Each line of output is a candidate, a tab and a description.
const completeWord = "__complete"

// choices are the words that the first argument of a command may be, by the path of the command.
var choices = map[string][]string{
	"completion": shells,
	"logs":       runChoices, "cancel": runChoices, "pause": runChoices, "resume": runChoices, "retry": runChoices,
	"approve": runChoices, "reject": runChoices, "mark": runChoices,
	"status": runChoices,
}

// complete returns the words that may stand at the cursor, each with a description behind a tab. words is the command line without
// the program; the cursor is in the last word. If complete returns none, the shell offers files.
func complete(app *cli.App, words []string) []string {
	if len(words) == 0 {
		words = []string{""}
	}
	words = joinEquals(words)
	last := words[len(words)-1]
	a := argParser{app: app, rest: slices.Clone(words[:len(words)-1])}
	if flag := a.consume(); flag != nil {
		return matching(a.values(flag), last)
	}
	if name, value, ok := strings.Cut(last, "="); ok && strings.HasPrefix(name, "-") {
		flag, _ := a.lookup(strings.TrimLeft(name, "-"))
		return matching(prefixed(name+"=", a.values(flag)), name+"="+value)
	}
	if strings.HasPrefix(last, "-") {
		return matching(a.flagCandidates(), last)
	}
	return matching(a.wordCandidates(), last)
}

// joinEquals drops the = that bash makes a word of its own in --output=json, so that flag and value are two words, as in --output
// json. If the = is the last word, the value at the cursor is "".
func joinEquals(words []string) []string {
	var joined []string
	for i, w := range words {
		if w == "=" && i > 0 && strings.HasPrefix(words[i-1], "-") {
			if i == len(words)-1 {
				joined = append(joined, "")
			}
			continue
		}
		joined = append(joined, w)
	}
	return joined
}

// consume parses all words in a.rest, which are the words before the cursor. It passes over invalid words, which the user can still
// correct. If the last word is a flag that needs a value, it returns that flag, otherwise nil.
func (a *argParser) consume() cli.Flag {
	for len(a.rest) > 0 {
		word := a.rest[0]
		a.rest = a.rest[1:]
		if name, _, inline := strings.Cut(strings.TrimLeft(word, "-"), "="); strings.HasPrefix(word, "-") && !inline {
			if flag, _ := a.lookup(name); flag != nil && takesValue(flag) && len(a.rest) == 0 {
				return flag
			}
		}
		_ = a.take(word) // the user can still correct an invalid word
	}
	return nil
}

func (a *argParser) flagCandidates() []string {
	flags := slices.Clone(a.app.Flags)
	if c := a.command(); c != nil {
		flags = append(slices.Clone(c.Flags), flags...)
	}
	candidates := []string{"--help\tshow help"}
	for _, f := range flags {
		description := ""
		if documented, ok := f.(cli.DocGenerationFlag); ok {
			_, description = placeholder(documented.GetUsage())
		}
		candidates = append(candidates, dashed(f.Names()[0])+"\t"+description)
	}
	return candidates
}

func (a *argParser) wordCandidates() []string {
	c := a.command()
	if c == nil {
		return append(described(a.app.Commands), "help\tshow help for a command")
	}
	if len(c.Subcommands) > 0 && len(a.args) == 0 {
		return described(c.Subcommands)
	}
	if len(a.args) > 0 {
		return nil
	}
	return choices[pathName(a.path)]
}

func described(commands []*cli.Command) []string {
	var candidates []string
	for _, c := range commands {
		candidates = append(candidates, c.Name+"\t"+c.Usage)
	}
	return candidates
}

// values returns the words that the value of a flag may be. It returns nil if any value is allowed, or if flag is nil.
func (a *argParser) values(flag cli.Flag) []string {
	if flag == nil {
		return nil
	}
	name := dashed(flag.Names()[0])
	switch {
	case name == "--state":
		return runStates
	case name == "--overlap-policy":
		return overlapPolicies
	case name == "--reprocess":
		return runview.ReprocessWords
	case name == "--output" && pathName(a.path) == "dag graph":
		return graphFormats
	}
	for _, k := range settingKeys() {
		if k.Flag == name {
			return k.Allowed
		}
	}
	return nil
}

func prefixed(prefix string, words []string) []string {
	var all []string
	for _, w := range words {
		all = append(all, prefix+w)
	}
	return all
}

func matching(candidates []string, prefix string) []string {
	return slices.DeleteFunc(slices.Clone(candidates), func(c string) bool { return !strings.HasPrefix(c, prefix) })
}

//go:embed completion
var completionScripts embed.FS

// shells are the shells with a completion script of that name.
var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletionCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a script that makes a shell complete commands, flags and values",
		ArgsUsage: "SHELL",
		Description: manual{
			about: `SHELL is bash, zsh, fish or powershell. The script asks oarlock for the choices, so it stays right after an upgrade.`,
			examples: []string{
				`bash:        echo 'source <(oarlock completion bash)' >> ~/.bashrc`,
				`zsh:         oarlock completion zsh > "${fpath[1]}/_oarlock"`,
				`fish:        oarlock completion fish > ~/.config/fish/completions/oarlock.fish`,
				`powershell:  oarlock completion powershell | Out-String | Invoke-Expression`,
			},
			exits: []exitNote{{exitOK, "the script was printed"}, usageNote, settingsNote},
		}.String(),
		Action: func(c *cli.Context) error { return runCompletion(e, c.Args().Slice()) },
	}
}

func runCompletion(e *env, args []string) error {
	if len(args) != 1 {
		return &usageError{msg: "completion needs one shell", hint: "name a shell: " + config.OrList(shells)}
	}
	shell := args[0]
	if !slices.Contains(shells, shell) {
		hint := cmp.Or(config.DidYouMean(shell, shells), "name a shell: "+config.OrList(shells))
		return &usageError{msg: fmt.Sprintf("no completion for shell %q", shell), hint: hint}
	}
	script, err := completionScripts.ReadFile("completion/oarlock." + shell)
	if err != nil {
		return fmt.Errorf("read the script: %w", err)
	}
	return e.print(strings.TrimLeft(string(script), "\n"))
}
