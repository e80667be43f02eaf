package archtest

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/internal/cli"
)

// The rule "commands" reads source; this asks the program itself, and finds commands as a user does.
func TestProgram_EveryCommandListsItsExitStatus(t *testing.T) {
	t.Parallel()
	asked := askCommands(t, programHelp(t))
	if len(asked) < 5 {
		t.Fatalf("found only the commands %q: does the help still list them under COMMANDS?", asked)
	}
}

func TestAskCommands_FindsOneWithoutExitStatus(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"":      "COMMANDS\n  good  works\n  group  has more\n\nEXIT STATUS\n  0  it worked",
		"good":  "EXIT STATUS\n  0  it worked",
		"group": "COMMANDS\n  bad  says nothing\n",
		// The words without a list do not count.
		"group bad": "EXIT STATUS\n",
	}
	complaints := &recorder{TB: t}
	askCommands(complaints, func(path ...string) string { return pages[strings.Join(path, " ")] })
	if want := "oarlock group,oarlock group bad"; strings.Join(complaints.about, ",") != want {
		t.Errorf("complained about %q, want %q", complaints.about, want)
	}
}

var exitList = regexp.MustCompile(`(?m)^EXIT STATUS\n +\d+ +\S`)

// askCommands reads the help of every command below path, and returns their names.
func askCommands(tb testing.TB, help func(path ...string) string, path ...string) []string {
	tb.Helper()
	text := help(path...)
	name := strings.Join(append([]string{"oarlock"}, path...), " ")
	if !exitList.MatchString(text) {
		tb.Errorf("%s: its help lists no EXIT STATUS: say which codes it exits with, and when", name)
	}
	asked := []string{name}
	for _, sub := range listed(text) {
		asked = append(asked, askCommands(tb, help, append(slices.Clip(path), sub)...)...)
	}
	return asked
}

// listed reads the names under COMMANDS.
func listed(help string) []string {
	_, rest, found := strings.Cut(help, "COMMANDS\n")
	var names []string
	for line := range strings.Lines(rest) {
		if fields := strings.Fields(line); found && len(fields) > 0 {
			names = append(names, fields[0])
			continue
		}
		break
	}
	return names
}

func programHelp(t *testing.T) func(path ...string) string {
	return func(path ...string) string {
		t.Helper()
		var out bytes.Buffer
		env := cli.Env{
			Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Dir: t.TempDir(),
			Lookup: func(string) (string, bool) { return "", false },
		}
		if code := cli.Main(env, append(slices.Clip(path), "--help")); code != 0 {
			t.Errorf("oarlock %s --help exits %d", strings.Join(path, " "), code)
		}
		return out.String()
	}
}

// recorder notes the subject of each complaint instead of failing.
type recorder struct {
	testing.TB

	about []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(_ string, args ...any) { r.about = append(r.about, args[0].(string)) }
