// Testsummary runs `go test -json` with its arguments and reports what a person wants to know: a line per package, the
// output of what failed, every skipped test with its reason, and a closing count.
//
//	go run ./tools/testsummary -race ./...
//	go run ./tools/testsummary [-again N] -race -- ./... -- ./alone/afterwards
//
// With `--` the packages come in groups that run one after another, each with the flags before the first `--`; from the
// second group on a package has the machine for itself.
//
// With -again, up to N tests that failed run once more, alone, when all others have ended: those that pass then are
// listed as flaky and fail nothing. A data race, a build that failed and a process that died are never given that chance.
//
// A test that has subtests is counted through them. A package that failed outside of its tests (it did not build, or
// its process died) counts as one failure. It exits 1 when anything failed or when nothing ran at all.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
)

func main() {
	ok, err := run(os.Stdout, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(out io.Writer, args []string) (ok bool, err error) {
	// Ctrl-C reaches `go test` as well: it stops, and what it did until then is still summed up.
	signal.Ignore(os.Interrupt)
	again, args, err := againOf(args)
	if err != nil {
		return false, err
	}
	s := newSummary(out)
	flags, groups := split(args)
	for n, packages := range groups {
		if n > 0 {
			packages = append([]string{"-p", "1"}, packages...)
		}
		if err := s.goTest(append(slices.Clone(flags), packages...)); err != nil {
			return false, err
		}
	}
	if err := s.again(flags, again); err != nil {
		return false, err
	}
	return s.close(), nil
}

// againOf takes `-again N` from the front.
func againOf(args []string) (int, []string, error) {
	if len(args) < 2 || args[0] != "-again" {
		return 0, args, nil
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return 0, nil, fmt.Errorf("-again wants a number, not %q", args[1])
	}
	return n, args[2:], nil
}

// split tells flags from groups of packages. Without `--` everything is one group, flags included.
func split(args []string) (flags []string, groups [][]string) {
	end := slices.Index(args, "--")
	if end < 0 {
		return nil, [][]string{args}
	}
	flags, rest := args[:end], args[end+1:]
	for {
		end = slices.Index(rest, "--")
		if end < 0 {
			return flags, append(groups, rest)
		}
		groups, rest = append(groups, rest[:end]), rest[end+1:]
	}
}

// goTest runs one `go test` and reads what it says; that tests failed is no error.
func (s *summary) goTest(args []string) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	stream, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("open pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start go test: %w", err)
	}
	readErr := s.read(stream)
	waitErr := cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(waitErr, &exit) {
		if s.failed == 0 {
			s.fail("go test", []string{"it ended with " + exit.String() + " though no test failed\n"})
			s.hopeless = true
		}
		return readErr // what failed is in the summary
	}
	return errors.Join(readErr, waitErr)
}
