// Chaosreport makes docs/chaos-report.md of the results of fault runs: `make chaos-report`.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/oarlock-dev/oarlock/integration/chaos/report"
)

func main() {
	if err := write(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "chaosreport:", err)
		os.Exit(1)
	}
}

// write makes a page of files of results.
func write(paths []string, to io.Writer) error {
	if len(paths) == 0 {
		return fmt.Errorf("name files of results, one line of JSON per seed: make chaos RESULTS=FILE writes one")
	}
	var all []report.Result
	for _, path := range paths {
		results, err := read(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, results...)
	}
	_, err := io.WriteString(to, report.Page(all))
	return err
}

func read(path string) ([]report.Result, error) {
	f, err := os.Open(path) //nolint:gosec // whoever runs it names it
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return report.Read(f)
}
