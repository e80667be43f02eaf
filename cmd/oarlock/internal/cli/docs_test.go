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

// TestDocs_PageOfTheCommandLineIsWhatTheHelpSays generates docs/cli.md again: its first part is written by hand, the rest
// is the help of the commands.
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

// TestDocs_TellEveryCodeOfAnError checks that the list of error codes, which are a contract, is complete.
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
