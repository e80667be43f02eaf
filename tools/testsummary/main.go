// Testsummary runs `go test -json` with its arguments and reports what a person wants to know: a line per package, the
// output of what failed, every skipped test with its reason, and a closing count.
//
//	go run ./tools/testsummary -race ./...
//
// A test that has subtests is counted through them. A package that failed outside of its tests (it did not build, or
// its process died) counts as one failure. It exits 1 when anything failed or when nothing ran at all.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
)

func main() {
	ok, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(args []string) (ok bool, err error) {
	// Ctrl-C reaches `go test` as well: it stops, and what it did until then is still summed up.
	signal.Ignore(os.Interrupt)
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	stream, err := cmd.StdoutPipe()
	if err != nil {
		return false, fmt.Errorf("open pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("start go test: %w", err)
	}
	s := newSummary(os.Stdout)
	readErr := s.read(stream)
	waitErr := cmd.Wait()
	ok = s.close()
	if exit := (*exec.ExitError)(nil); errors.As(waitErr, &exit) {
		return false, readErr // what failed is in the summary
	}
	return ok, errors.Join(readErr, waitErr)
}
