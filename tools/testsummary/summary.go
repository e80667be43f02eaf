package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// shownLines bounds what is printed of one failed test: half from its start, half from its end.
const shownLines = 200

// event is a line of `go test -json`, see `go doc test2json`.
type event struct {
	Action      string  `json:"Action"`
	Package     string  `json:"Package"`
	ImportPath  string  `json:"ImportPath"` // of a build event
	Test        string  `json:"Test"`
	Elapsed     float64 `json:"Elapsed"`
	Output      string  `json:"Output"`
	FailedBuild string  `json:"FailedBuild"` // of a package's fail: the ImportPath whose build failed
}

// result is what became of one test; an empty outcome means that it never ended.
type result struct {
	outcome string
	output  []string
	parent  bool
}

type summary struct {
	out                     io.Writer
	running                 map[string]map[string]*result // package → test
	builds                  map[string][]string           // import path → compiler output
	skips                   map[string][]string           // reason → tests
	failures                []failure
	hopeless                bool     // something failed that running again would not mend
	flaky                   []string // failed, then passed alone
	passed, failed, skipped int
}

func newSummary(out io.Writer) *summary {
	return &summary{
		out:     out,
		running: map[string]map[string]*result{},
		builds:  map[string][]string{},
		skips:   map[string][]string{},
	}
}

func (s *summary) read(stream io.Reader) error {
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			s.line(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read test output: %w", err)
		}
	}
}

// line takes one line of the stream; what is not an event is for the person who watches.
func (s *summary) line(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil {
		fmt.Fprintf(s.out, "%s", line)
		return
	}
	switch {
	case e.Action == "build-output":
		s.builds[e.ImportPath] = append(s.builds[e.ImportPath], e.Output)
	case e.Package == "":
	case e.Action == "output":
		r := s.test(e)
		r.output = append(r.output, e.Output)
	case e.Action == "run":
		s.test(e)
		s.markParents(e)
	case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
		s.ended(e)
	}
}

// test returns the record of an event's test; the package's own output is kept under the name "".
func (s *summary) test(e event) *result {
	tests := s.running[e.Package]
	if tests == nil {
		tests = map[string]*result{}
		s.running[e.Package] = tests
	}
	if tests[e.Test] == nil {
		tests[e.Test] = &result{}
	}
	return tests[e.Test]
}

// markParents goes by tests that ran: a slash in a name alone ("database/sql") makes no parent.
func (s *summary) markParents(e event) {
	for i := range e.Test {
		if parent := s.running[e.Package][e.Test[:i]]; e.Test[i] == '/' && parent != nil {
			parent.parent = true
		}
	}
}

func (s *summary) ended(e event) {
	if e.Test != "" {
		s.test(e).outcome = e.Action
		return
	}
	tests := s.running[e.Package]
	delete(s.running, e.Package)
	s.packageEnded(e, tests)
}

func (s *summary) packageEnded(e event, tests map[string]*result) {
	before := s.failed
	names := slices.Sorted(maps.Keys(tests))
	ran := 0
	for _, name := range names {
		if name != "" && !tests[name].parent {
			ran++
			s.count(e.Package, name, tests[name])
		}
	}
	for _, name := range names {
		if tests[name].parent {
			s.countParent(e.Package, name, tests)
		}
	}
	if e.Action == "fail" && s.failed == before {
		s.failOutside(e, tests[""])
	}
	if ran > 0 || e.Action == "fail" {
		fmt.Fprintf(s.out, "%-4s %s  %d tests, %.1fs\n", verdict(e.Action), e.Package, ran, e.Elapsed)
	}
}

func verdict(action string) string {
	if action == "fail" {
		return "FAIL"
	}
	return "ok"
}

func (s *summary) count(pkg, name string, r *result) {
	switch r.outcome {
	case "pass":
		s.passed++
	case "skip":
		s.skipped++
		why := reason(r.output)
		s.skips[why] = append(s.skips[why], pkg+"."+name)
	default:
		s.failure(pkg, name, r.output)
		s.hopeless = s.hopeless || r.outcome == "" // its process died
		s.fail(pkg+"."+name, r.output)
	}
}

// countParent adds a failure only where no subtest has it already; what the parent said is shown in any case.
func (s *summary) countParent(pkg, name string, tests map[string]*result) {
	switch r := tests[name]; {
	case r.outcome == "pass" || r.outcome == "skip":
	case failedBelow(tests, name):
		s.look(r.output)
		s.show(pkg+"."+name, r.output)
	default:
		s.failure(pkg, name, r.output)
		s.fail(pkg+"."+name, r.output)
	}
}

func failedBelow(tests map[string]*result, parent string) bool {
	for name, r := range tests {
		if strings.HasPrefix(name, parent+"/") && r.outcome != "pass" && r.outcome != "skip" {
			return true
		}
	}
	return false
}

// failOutside reports a package that failed although none of its tests did.
func (s *summary) failOutside(e event, own *result) {
	output := s.builds[e.FailedBuild]
	if own != nil {
		output = append(output, own.output...)
	}
	s.hopeless = true
	s.fail(e.Package, output)
}

func (s *summary) fail(name string, output []string) {
	s.failed++
	fmt.Fprintf(s.out, "\n--- failed: %s\n", name)
	s.show("", output)
}

// show prints what a test said, without the lines that the test framework puts around it; nothing if it said nothing.
func (s *summary) show(title string, output []string) {
	said := slices.DeleteFunc(slices.Clone(output), isFrame)
	if len(said) == 0 {
		return
	}
	if title != "" {
		fmt.Fprintf(s.out, "\n--- around it: %s\n", title)
	}
	if cut := len(said) - shownLines; cut > 0 {
		note := fmt.Sprintf("    … %d lines left out: run this test alone to see them …\n", cut)
		said = slices.Concat(said[:shownLines/2], []string{note}, said[len(said)-shownLines/2:])
	}
	fmt.Fprintln(s.out, strings.Join(said, ""))
}

// isFrame says that a line is the test framework's own.
func isFrame(line string) bool {
	line = strings.TrimSpace(line)
	return line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ")
}

// scriptSkip is how a testscript shows the line that skipped it: > [!db] skip 'needs a database'
var scriptSkip = regexp.MustCompile(`^> (?:\[[^\]]*\] )*skip '?(.*?)'?$`)

// reason finds what a skipped test said: its last line that is not the test framework's own.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		if isFrame(line) {
			continue
		}
		line = strings.TrimSpace(line)
		if m := scriptSkip.FindStringSubmatch(line); m != nil {
			return m[1]
		}
		if place, said, ok := strings.Cut(line, ": "); ok && strings.Contains(place, ".go:") {
			line = said
		}
		return line
	}
	return "no reason given"
}

// close prints what was skipped and the count, and says whether all is well.
func (s *summary) close() bool {
	for pkg, tests := range s.running { // go test died before these packages ended
		s.packageEnded(event{Action: "fail", Package: pkg}, tests)
	}
	byCount := func(a, b string) int {
		return cmp.Or(cmp.Compare(len(s.skips[b]), len(s.skips[a])), cmp.Compare(a, b))
	}
	for _, why := range slices.SortedFunc(maps.Keys(s.skips), byCount) {
		fmt.Fprintf(s.out, "\nskipped %d: %s\n", len(s.skips[why]), why)
		for _, name := range s.skips[why] {
			fmt.Fprintf(s.out, "  %s\n", name)
		}
	}
	for n, name := range s.flaky {
		if n == 0 {
			fmt.Fprintf(s.out, "\nflaky %d: failed, and passed when run alone; mend them\n", len(s.flaky))
		}
		fmt.Fprintf(s.out, "  %s\n", name)
	}
	if s.passed+s.failed == 0 {
		fmt.Fprintln(s.out, "\nno test ran: check the packages and the -run pattern")
	}
	fmt.Fprintf(s.out, "\n%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	return s.failed == 0 && s.passed > 0
}
