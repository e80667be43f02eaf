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

// Outcome is the result of a suite, or of a mutant: then that of the first suite that fails.
type Outcome struct {
	Caught bool
	Suite  string
	Test   string // the first test that failed
	Seed   string // the history that showed the fault, for suites that try seeds
	Runs   int    // how many suites ran
	Took   time.Duration
}

// Plant runs suites over a mutant of the code in a folder until one fails. An error means that the mutant, or a suite,
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

// overlay writes the file with the fault, and the list that makes the go command use it instead of the original.
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

// seedIn returns the first seed that a failing suite prints.
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

// firstFailure returns the name of the first test that failed. That is the innermost, because its parents report after
// it. If a package failed outside of its tests, for instance by a panic, it returns the package.
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
