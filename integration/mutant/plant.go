package mutant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

// Suite is a package of tests and how to run it.
type Suite struct {
	Package string
	Args    []string
}

// Outcome of a suite, or of a mutant: of the first suite that is red.
type Outcome struct {
	Caught bool
	Suite  string
	Test   string // the first to fail
	Seed   string // the history that showed it, where seeds are what is tried
	Runs   int    // of suites, until then
	Took   time.Duration
}

// Plant runs suites over a mutant of what is in a folder until one is red. An error says that the mutant, or a suite,
// does not even compile.
func Plant(ctx context.Context, folder, scratch string, m *Mutant, suites []Suite) (Outcome, error) {
	overlay, err := overlay(folder, scratch, m)
	if err != nil {
		return Outcome{}, err
	}
	begin := time.Now()
	for i, s := range suites {
		o, err := s.run(ctx, folder, "-overlay="+overlay)
		o.Took, o.Runs = time.Since(begin), i+1
		if err != nil || o.Caught {
			return o, err
		}
	}
	return Outcome{Took: time.Since(begin), Runs: len(suites)}, nil
}

// overlay writes the file with the fault, and what tells the go command to take it for the right one.
func overlay(folder, scratch string, m *Mutant) (string, error) {
	file := filepath.Join(folder, m.File)
	source, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("mutant %q: %w", m.Name, err)
	}
	faulty, err := m.Apply(string(source))
	if err != nil {
		return "", err
	}
	replacement := filepath.Join(scratch, "faulty"+filepath.Ext(m.File))
	index, err := json.Marshal(map[string]map[string]string{"Replace": {file: replacement}})
	if err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	list := filepath.Join(scratch, "overlay.json")
	if err := os.WriteFile(list, index, 0o600); err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	return list, os.WriteFile(replacement, []byte(faulty), 0o600) //nolint:gosec // the list of mutants is ours
}

// run runs the suite up to its first failure.
func (s Suite) run(ctx context.Context, folder string, flags ...string) (Outcome, error) {
	args := append([]string{"test", "-json", "-vet=off", "-count=1", "-failfast", "-timeout=4m"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(append(args, s.Package), s.Args...)...)
	cmd.Dir = folder
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	events, failure := cmd.Output()
	test, built, err := firstFailure(events)
	if bytes.Contains(events, []byte("panic: test timed out after ")) {
		test = "(does not end)"
	}
	switch exit := (*exec.ExitError)(nil); {
	case err != nil:
		return Outcome{}, err
	case failure != nil && !errors.As(failure, &exit):
		return Outcome{}, fmt.Errorf("go test: %w", failure)
	case !built || failure != nil && test == "":
		return Outcome{}, fmt.Errorf("%s does not compile:\n%s%s", s.Package, complaints.Bytes(), buildOutput(events))
	}
	return Outcome{Caught: failure != nil, Suite: s.Package, Test: test, Seed: seedIn(events)}, nil
}

var seedLine = regexp.MustCompile(`seed (\d+):`)

// seedIn is the first seed that a failing suite names.
func seedIn(events []byte) string {
	if found := seedLine.FindSubmatch(events); found != nil {
		return string(found[1])
	}
	return ""
}

// event is a line of `go test -json`.
type event struct {
	Action      string `json:"Action"`
	Test        string `json:"Test"`
	Output      string `json:"Output"`
	FailedBuild string `json:"FailedBuild"`
}

// firstFailure names the first test that failed; the innermost, because its parents report after it. A package that
// failed outside of its tests, for instance by a panic, is called so.
func firstFailure(events []byte) (test string, built bool, err error) {
	built = true
	err = eachEvent(events, func(e event) {
		switch {
		case e.FailedBuild != "" || e.Action == "build-fail":
			built = false
		case e.Action != "fail" || test != "":
		case e.Test == "":
			test = "(outside of its tests)"
		default:
			test = e.Test
		}
	})
	return test, built, err
}

func buildOutput(events []byte) (text string) {
	err := eachEvent(events, func(e event) {
		if e.Action == "build-output" {
			text += e.Output
		}
	})
	if err != nil {
		return err.Error()
	}
	return text
}

func eachEvent(events []byte, do func(event)) error {
	for line := range bytes.Lines(events) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("read go test: %w: %s", err, line)
		}
		do(e)
	}
	return nil
}
