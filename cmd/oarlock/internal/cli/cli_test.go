package cli

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// invocation is the outcome of a command line that ran in the test's process.
type invocation struct {
	exit           exit
	stdout, stderr string
}

// testEnv is an Env without variables, input or terminal.
func testEnv() Env {
	return Env{
		Stdin:  strings.NewReader(""),
		Lookup: func(string) (string, bool) { return "", false },
		Dir:    "/nowhere",
	}
}

func invoke(t *testing.T, e Env, args ...string) invocation {
	t.Helper()
	var stdout, stderr strings.Builder
	e.Stdout, e.Stderr = &stdout, &stderr
	code := run(t.Context(), e, args)
	return invocation{exit(code), stdout.String(), stderr.String()}
}

// eachCommand visits all commands and groups with their paths.
func eachCommand(app *cli.App, visit func(path []*cli.Command)) {
	var walk func(path, commands []*cli.Command)
	walk = func(path, commands []*cli.Command) {
		for _, c := range commands {
			here := append(slices.Clone(path), c)
			visit(here)
			walk(here, c.Subcommands)
		}
	}
	walk(nil, app.Commands)
}

func TestHelp_OfEveryCommandHasUsageExamplesAndExitStatus(t *testing.T) {
	t.Parallel()
	app, asked := newApp(&env{Env: testEnv()}), 0
	if got := invoke(t, testEnv(), "--help"); got.exit != exitOK || !strings.Contains(got.stdout, "\nEXIT STATUS\n  0  ") {
		t.Errorf("--help: exit %d, without EXIT STATUS", got.exit)
	}
	eachCommand(app, func(path []*cli.Command) {
		asked++
		name := pathName(path)
		got := invoke(t, testEnv(), append(strings.Fields(name), "--help")...)
		if got.exit != exitOK || got.stderr != "" {
			t.Errorf("%s --help: exit %d, stderr %q", name, got.exit, got.stderr)
		}
		for _, section := range []string{"\nUSAGE\n  oarlock " + name, "\nEXAMPLES\n", "\nEXIT STATUS\n  0  "} {
			if !strings.Contains(got.stdout, section) {
				t.Errorf("%s --help has no %q", name, section)
			}
		}
		for line := range strings.SplitSeq(got.stdout, "\n") {
			if len([]rune(line)) > 120 {
				t.Errorf("%s --help has a line of %d columns: %s", name, len([]rune(line)), line)
			}
		}
	})
	if asked < 40 {
		t.Errorf("only %d commands were found", asked)
	}
}

func TestMain_SaysSoWhenOutputCannotBeWritten(t *testing.T) {
	t.Parallel()
	e := testEnv()
	var stderr strings.Builder
	e.Stdout, e.Stderr = brokenWriter{}, &stderr
	if code := run(t.Context(), e, []string{"version"}); code != int(exitError) {
		t.Errorf("exit %d, want %d", code, exitError)
	}
	if want := "oarlock: write output: no space left\n"; stderr.String() != want {
		t.Errorf("stderr %q, want %q", stderr.String(), want)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errNoSpace }

var errNoSpace = errors.New("no space left")

func TestColour_IsForTerminalsThatWantIt(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		terminal bool
		env      map[string]string
		args     []string
		want     bool
	}{
		"terminal":         {true, nil, nil, true},
		"pipe":             {false, nil, nil, false},
		"NO_COLOR":         {true, map[string]string{"NO_COLOR": "1"}, nil, false},
		"empty NO_COLOR":   {true, map[string]string{"NO_COLOR": ""}, nil, true},
		"--no-color":       {true, nil, []string{"--no-color"}, false},
		"--no-color=false": {true, map[string]string{"NO_COLOR": "1"}, []string{"--no-color=false"}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := testEnv()
			e.StdoutTTY, e.StderrTTY = c.terminal, c.terminal
			e.Lookup = func(name string) (string, bool) { text, ok := c.env[name]; return text, ok }
			shown := invoke(t, e, append([]string{"config", "show", "--origin"}, c.args...)...)
			if got := strings.Contains(shown.stdout, "\x1b["); got != c.want || shown.exit != exitOK {
				t.Errorf("coloured output %v, want %v: exit %d, %q", got, c.want, shown.exit, shown.stdout+shown.stderr)
			}
			failed := invoke(t, e, append([]string{"completion", "bsh"}, c.args...)...)
			if got := strings.Contains(failed.stderr, "\x1b["); got != c.want {
				t.Errorf("coloured error %v, want %v: %q", got, c.want, failed.stderr)
			}
		})
	}
}

func TestConfirm_TakesOnlyYes(t *testing.T) {
	t.Parallel()
	cases := []struct {
		said   string
		agreed bool
	}{{"y\n", true}, {" YES \n", true}, {"yes", true}, {"n\n", false}, {"\n", false}, {"", false}, {"yep\n", false}}
	for _, c := range cases {
		var stderr strings.Builder
		e := &env{Env: Env{Stdin: strings.NewReader(c.said), Stderr: &stderr}}
		if err := e.confirm(t.Context()); (err == nil) != c.agreed {
			t.Errorf("%q: got %v, want agreement %v", c.said, err, c.agreed)
		}
		if stderr.String() != "Go on? [y/N] " {
			t.Errorf("asked %q", stderr.String())
		}
	}
}

func TestConfirm_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	silent, write := io.Pipe()
	defer write.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&signalError{})
	e := &env{Env: Env{Stdin: silent, Stderr: io.Discard}}
	if err := e.confirm(ctx); !errors.Is(err, context.Cause(ctx)) {
		t.Errorf("got %v, want %v", err, context.Cause(ctx))
	}
}
