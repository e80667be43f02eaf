package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/integration/kit/golden"
)

// TestDocs_PageOfTheCommandLineIsWhatTheHelpSays keeps docs/cli.md: its first part is written by hand, the rest comes from
// the commands.
func TestDocs_PageOfTheCommandLineIsWhatTheHelpSays(t *testing.T) {
	t.Parallel()
	head, err := os.ReadFile(filepath.Join("testdata", "cli.head.md"))
	if err != nil {
		t.Fatal(err)
	}
	app := newApp(&env{Env: testEnv()})
	page := new(strings.Builder)
	page.Write(head)
	fmt.Fprintf(page, "\n## All commands\n\n| command | |\n|---|---|\n")
	eachCommand(app, func(path []*cli.Command) {
		name := app.Name + " " + pathName(path)
		fmt.Fprintf(page, "| [`%s`](#%s) | %s |\n", name, strings.ReplaceAll(name, " ", "-"), path[len(path)-1].Usage)
	})
	fmt.Fprintf(page, "\n## oarlock\n\n```text\n%s```\n", helpText(app, nil))
	eachCommand(app, func(path []*cli.Command) {
		fmt.Fprintf(page, "\n## oarlock %s\n\n```text\n%s```\n", pathName(path), helpText(app, path))
	})
	golden.Equal(t, "../../../../docs/cli.md", page.String())
}

// TestDocs_TellEveryCodeOfAnError keeps the codes of errors, which are a contract, in one list.
func TestDocs_TellEveryCodeOfAnError(t *testing.T) {
	t.Parallel()
	head, err := os.ReadFile(filepath.Join("testdata", "cli.head.md"))
	if err != nil {
		t.Fatal(err)
	}
	for k := range kinds {
		if row := fmt.Sprintf("| `%s` | %d |", k.code, k.exit); !strings.Contains(string(head), row) {
			t.Errorf("testdata/cli.head.md has no row %s", row)
		}
	}
}
