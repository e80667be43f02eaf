package mutant

import (
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var mutants = flag.Bool("mutants", false, "plant every fault and run the suites over it")

const core = "../.."

// suites are asked in this order: the quick ones see most, and the last two enumerate.
var suites = []Suite{
	{Package: "./dagruntest/script"},
	{Package: "./dagruntest/world", Args: []string{"-seeds=60"}},
	{Package: "."},
	{Package: "./dagruntest", Args: []string{"-run=TestModel|TestTriggerRules", "-histories=400"}},
	{Package: "./dagruntest/enumerate"},
	{Package: "./dagruntest"},
}

func list(t *testing.T) []Mutant {
	t.Helper()
	text, err := os.ReadFile("testdata/mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, err := Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestMutants_FitTheCode(t *testing.T) {
	t.Parallel()
	all := list(t)
	if len(all) < 60 {
		t.Errorf("%d mutants: there were more than 60", len(all))
	}
	for _, m := range all {
		source, err := os.ReadFile(filepath.Join(core, m.File))
		if err != nil {
			t.Errorf("mutant %q: %v", m.Name, err)
			continue
		}
		faulty, err := m.Apply(string(source))
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.File, faulty, 0); err != nil {
			t.Errorf("mutant %q is no Go: %v", m.Name, err)
		}
	}
}

// TestAll plants the faults, as many at a time as -parallel says, and prints who noticed each, and how fast.
func TestAll(t *testing.T) {
	if !*mutants {
		t.Skip("takes minutes: make mutants")
	}
	folder, err := filepath.Abs(core)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range suites {
		if o, err := s.run(t.Context(), folder); err != nil || o.Caught {
			t.Fatalf("%s is red without any fault: %v %s", s.Package, err, o.Test)
		}
	}
	for _, m := range list(t) {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			plant(t, folder, &m)
		})
	}
}

func plant(t *testing.T, folder string, m *Mutant) {
	t.Helper()
	o, err := Plant(t.Context(), folder, t.TempDir(), m, suites)
	by := "SURVIVED"
	switch {
	case err != nil:
		t.Fatal(err)
	case o.Caught:
		by = strings.TrimPrefix(o.Suite, "./") + " " + o.Test
	default:
		t.Errorf("survived every suite: a test is missing\n%s: %s\n- %s\n+ %s", m.File, m.Why, m.Old, m.New)
	}
	fmt.Printf("%-42s %5.1f s  %s\n", m.Name, o.Took.Seconds(), by)
}

func TestParse_RefusesWhatIsNoFault(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\nwhy\nrun.go":                                             "needs a name",
		"a\nwhy\nrun.go\n- x\n+ x":                                   "changes nothing",
		"a\nwhy\nrun.go\n+ x":                                        "changes nothing",
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
