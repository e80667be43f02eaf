package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// raceFound is what the race detector prints; a race that shows in one run of two is a race.
const raceFound = "WARNING: DATA RACE"

// failure is a test that failed, without the tests that failed with it because it is theirs.
type failure struct{ pkg, test string }

// failure notes a test that may have another chance, or that nothing can save.
func (s *summary) failure(pkg, test string, output []string) {
	s.look(output)
	s.failures = append(s.failures, failure{pkg, test})
}

// look finds what running again would not mend.
func (s *summary) look(output []string) {
	s.hopeless = s.hopeless || slices.ContainsFunc(output, func(line string) bool { return strings.Contains(line, raceFound) })
}

// again runs what failed once more, alone. Its failures are taken back if all of it passes then.
func (s *summary) again(flags []string, limit int) error {
	if s.hopeless || s.failed == 0 || s.failed > limit {
		return nil
	}
	second := newSummary(s.out)
	fmt.Fprintf(s.out, "\nonce more, alone: %d tests that failed\n", s.failed)
	for _, f := range s.failures {
		if err := second.goTest(append(slices.Clone(flags), "-count", "1", "-run", f.pattern(), f.pkg)); err != nil {
			return err
		}
	}
	s.forgive(second)
	return nil
}

// pattern is what `go test -run` wants for that test and no other.
func (f failure) pattern() string {
	levels := strings.Split(f.test, "/")
	for i, level := range levels {
		levels[i] = "^" + regexp.QuoteMeta(level) + "$"
	}
	return strings.Join(levels, "/")
}

// forgive takes failures back that did not happen again.
func (s *summary) forgive(second *summary) {
	if second.failed > 0 || second.passed == 0 {
		return
	}
	for _, f := range s.failures {
		s.flaky = append(s.flaky, f.pkg+"."+f.test)
	}
	s.passed, s.failed = s.passed+s.failed, 0
}
