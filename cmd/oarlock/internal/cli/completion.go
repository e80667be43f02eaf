package cli

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
)

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
			about: `SHELL is bash, zsh, fish or powershell. The script asks oarlock itself what fits, so it stays right
when oarlock is upgraded.`,
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
		return &usageError{msg: "completion needs one shell", hint: "one of " + config.OrList(shells)}
	}
	shell := args[0]
	if !slices.Contains(shells, shell) {
		hint := cmp.Or(config.DidYouMean(shell, shells), "one of "+config.OrList(shells))
		return &usageError{msg: fmt.Sprintf("no completion for shell %q", shell), hint: hint}
	}
	script, err := completionScripts.ReadFile("completion/oarlock." + shell)
	if err != nil {
		return fmt.Errorf("read the script: %w", err)
	}
	return e.print(strings.TrimLeft(string(script), "\n"))
}
