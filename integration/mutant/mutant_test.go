package mutant

import (
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	mutants = flag.Bool("mutants", false, "plant every fault and run the suites over it")
	only    = flag.String("only", "", "plant those alone whose names match")
)

// rounds is how often the suites of a system fault run, because some need luck.
const rounds = 3

const (
	root = "../.."
	core = "../../dagrun"
)

// coreSuites run in this order: the quick ones notice most faults, and the last one plays the worker around the core.
var coreSuites = []Suite{
	{Package: "../integration/coretest/script"},
	{Package: "."},
	{Package: "../integration/coretest", Args: []string{"-run=TestModel|TestTriggerRules", "-histories=400"}},
	{Package: "../integration/coretest/enumerate"},
	{Package: "../integration/coretest"},
	{Package: "../integration/world", Args: []string{"-run=Promises", "-seeds=20"}},
}

func list(t *testing.T, name string, atLeast int) []Mutant {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	all, err := Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < atLeast {
		t.Errorf("%s has %d mutants: there were %d and more", name, len(all), atLeast)
	}
	return all
}

func TestMutants_FitTheCore(t *testing.T) {
	t.Parallel()
	for _, m := range list(t, "core.txt", 60) {
		fits(t, core, &m)
	}
}

func TestMutants_FitTheSystem(t *testing.T) {
	t.Parallel()
	for _, m := range list(t, "system.txt", 25) {
		fits(t, root, &m)
		if len(m.By) == 0 {
			t.Errorf("mutant %q does not say who must notice it", m.Name)
		}
	}
}

// fits checks that a fault can still be planted, and that the result is still valid Go.
func fits(t *testing.T, folder string, m *Mutant) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(folder, m.File))
	if err != nil {
		t.Errorf("mutant %q: %v", m.Name, err)
		return
	}
	faulty, err := m.Apply(string(source))
	if err != nil {
		t.Error(err)
		return
	}
	if filepath.Ext(m.File) != ".go" {
		return
	}
	if _, err := parser.ParseFile(token.NewFileSet(), m.File, faulty, 0); err != nil {
		t.Errorf("mutant %q is no Go: %v", m.Name, err)
	}
}

// TestCore plants the faults of the core, up to -parallel at a time. It prints which suite noticed each, and how fast.
func TestCore(t *testing.T) {
	if !*mutants {
		t.Skip("takes minutes: make mutants")
	}
	folder := absolute(t, core)
	for _, s := range coreSuites {
		isGreen(t, folder, &s)
	}
	for _, m := range chosen(t, list(t, "core.txt", 60)) {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			suites := coreSuites
			if len(m.By) > 0 {
				suites = m.By
			}
			plant(t, folder, &m, suites)
		})
	}
}

// TestSystem plants the faults of the system one after the other, since their suites start servers and wait for leases.
func TestSystem(t *testing.T) {
	if !*mutants {
		t.Skip("takes minutes: make mutants")
	}
	folder := absolute(t, root)
	all := chosen(t, list(t, "system.txt", 25))
	for _, s := range together(all) {
		isGreen(t, folder, &s)
	}
	for _, m := range all {
		plant(t, folder, &m, slices.Repeat(m.By, rounds))
	}
}

// together returns the suites of all mutants, merged into one suite for each package.
func together(all []Mutant) []Suite {
	var packages []string
	patterns, others := map[string][]string{}, map[string][]string{}
	for _, m := range all {
		for _, s := range m.By {
			if _, known := patterns[s.Package]; !known {
				packages = append(packages, s.Package)
			}
			i := slices.IndexFunc(s.Args, func(a string) bool { return strings.HasPrefix(a, "-run=") })
			pattern := "."
			if i >= 0 {
				pattern = strings.TrimPrefix(s.Args[i], "-run=")
			}
			patterns[s.Package] = append(patterns[s.Package], pattern)
			others[s.Package] = slices.DeleteFunc(slices.Clone(s.Args), func(a string) bool { return strings.HasPrefix(a, "-run=") })
		}
	}
	suites := make([]Suite, len(packages))
	for i, p := range packages {
		suites[i] = Suite{Package: p, Args: append([]string{"-run=" + strings.Join(patterns[p], "|")}, others[p]...)}
	}
	return suites
}

func chosen(t *testing.T, all []Mutant) []Mutant {
	t.Helper()
	wanted, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(m Mutant) bool { return !wanted.MatchString(m.Name) })
}

func absolute(t *testing.T, folder string) string {
	t.Helper()
	abs, err := filepath.Abs(folder)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// isGreen fails the test if a suite fails on the code without a fault.
func isGreen(t *testing.T, folder string, s *Suite) {
	t.Helper()
	if o, err := s.run(t.Context(), folder); err != nil || o.Caught {
		t.Fatalf("%s %v is red without any fault: %v %s", s.Package, s.Args, err, o.Test)
	}
}

func plant(t *testing.T, folder string, m *Mutant, suites []Suite) {
	t.Helper()
	o, err := Plant(t.Context(), folder, t.TempDir(), m, suites)
	by := "SURVIVED"
	switch {
	case err != nil:
		t.Errorf("%s: %v", m.Name, err)
		return
	case o.Caught:
		by = fmt.Sprintf("run %d %s %s", o.Runs, strings.TrimPrefix(o.Suite, "./"), o.Test)
		if o.Seed != "" {
			by += " seed " + o.Seed
		}
	default:
		t.Errorf("%s survived everybody: a test is missing\n%s: %s\n- %s\n+ %s", m.Name, m.File, m.Why, m.Old, m.New)
	}
	fmt.Printf("%-46s %6.1f s  %s\n", m.Name, o.Took.Seconds(), by)
}

func TestParse_RefusesWhatIsNoFault(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\nwhy\nrun.go":                                             "needs a name",
		"a\nwhy\nrun.go\n- x\n+ x":                                   "changes nothing",
		"a\nwhy\nrun.go\n+ x":                                        "changes nothing",
		"a\nwhy\nrun.go\n? \n- x\n+ y":                               "asks nobody",
		"a\nwhy\nrun.go\n- x\n? ./y\n+ y":                            "write what stands there",
		"a\nwhy\nrun.go\n+ x\n- y":                                   "write what stands there",
		"a\nwhy\nrun.go\n- x\n+ y\n\na\nwhy\nrun.go\n- x\n+ z":       "the name is taken",
		"# for the reader\n\na\nwhy\nrun.go\n- x\n- \n- y\nz\n+ z\n": "write what stands there",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestApply_WantsItsSnippetOnce(t *testing.T) {
	t.Parallel()
	m := Mutant{Name: "a", File: "run.go", Old: "x++", New: "x--"}
	if got, err := m.Apply("{ x++ }"); err != nil || got != "{ x-- }" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, source := range []string{"", "x++; x++"} {
		if got, err := m.Apply(source); err == nil {
			t.Errorf("%q became %q", source, got)
		}
	}
}

func TestFirstFailure_TellsTestsFromTheCompiler(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		events, test string
		built        bool
	}{
		{`{"Action":"pass","Test":"A"}` + "\n" + `{"Action":"pass"}`, "", true},
		{`{"Action":"fail","Test":"A/b"}` + "\n" + `{"Action":"fail","Test":"A"}` + "\n" + `{"Action":"fail"}`, "A/b", true},
		{`{"Action":"fail"}`, "(outside of its tests)", true},
		{`{"Action":"build-output","Output":"undefined: x"}` + "\n" + `{"Action":"build-fail"}`, "", false},
		{`{"Action":"fail","FailedBuild":"dagrun"}`, "", false},
	} {
		test, built, err := firstFailure([]byte(c.events))
		if test != c.test || built != c.built || err != nil {
			t.Errorf("%s: got %q, %t, %v", c.events, test, built, err)
		}
	}
	if _, _, err := firstFailure([]byte("no JSON")); err == nil {
		t.Error("took what is no JSON")
	}
}
