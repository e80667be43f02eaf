package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// raceFound is what the race detector prints; a race that shows in one run of two is a race.
const raceFound = "WARNING: DATA RACE"

// failure notes a test that may have another chance, or that nothing can save.
func (s *summary) failure(pkg, test string, output []string) {
	if slices.ContainsFunc(output, func(line string) bool { return strings.Contains(line, raceFound) }) {
		s.hopeless = true
	}
	top, _, _ := strings.Cut(test, "/")
	if !slices.Contains(s.failures[pkg], top) {
		s.failures[pkg] = append(s.failures[pkg], top)
	}
}

// again runs what failed once more, alone. Its failures are taken back if all of it passes then.
func (s *summary) again(flags []string, limit int) error {
	tests := 0
	for _, names := range s.failures {
		tests += len(names)
	}
	if s.hopeless || tests == 0 || tests > limit {
		return nil
	}
	second := newSummary(s.out)
	fmt.Fprintf(s.out, "\nonce more, alone: %d tests that failed\n", tests)
	for _, pkg := range slices.Sorted(maps.Keys(s.failures)) {
		pattern := "^(" + strings.Join(s.failures[pkg], "|") + ")$"
		if err := second.goTest(append(slices.Clone(flags), "-count", "1", "-run", pattern, pkg)); err != nil {
			return err
		}
	}
	s.forgive(second)
	return nil
}

// forgive takes failures back that did not happen again.
func (s *summary) forgive(second *summary) {
	if second.failed > 0 || second.passed == 0 {
		return
	}
	for _, pkg := range slices.Sorted(maps.Keys(s.failures)) {
		for _, name := range s.failures[pkg] {
			s.flaky = append(s.flaky, pkg+"."+name)
		}
	}
	s.passed, s.failed = s.passed+s.failed, 0
}
