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
	"text/tabwriter"
)

var mutants = flag.Bool("mutants", false, "plant every fault and run the suites over it")

const core = "../.."

// suites are asked in this order: the quick ones see most, and the last one enumerates for more than a minute.
var suites = []Suite{
	{Package: "./dagruntest/script"},
	{Package: "./dagruntest/world", Args: []string{"-seeds=60"}},
	{Package: "."},
	{Package: "./dagruntest", Args: []string{"-run=TestModel|TestTriggerRules", "-histories=400"}},
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

// TestAll plants the faults, two at a time or as many as -parallel says, and prints who noticed.
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
	all := list(t)
	outcomes := make([]Outcome, len(all))
	t.Run("mutant", func(t *testing.T) {
		for i := range all {
			t.Run(all[i].Name, func(t *testing.T) {
				t.Parallel()
				outcomes[i] = plant(t, folder, &all[i])
			})
		}
	})
	printTable(all, outcomes)
}

func plant(t *testing.T, folder string, m *Mutant) Outcome {
	t.Helper()
	o, err := Plant(t.Context(), folder, t.TempDir(), m, suites)
	switch {
	case err != nil:
		t.Error(err)
	case !o.Caught:
		t.Errorf("survived every suite: a test is missing\n%s: %s\n- %s\n+ %s", m.File, m.Why, m.Old, m.New)
	}
	return o
}

func printTable(all []Mutant, outcomes []Outcome) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "mutant\tcaught by\tseconds")
	for i, m := range all {
		by := "SURVIVED"
		if o := outcomes[i]; o.Caught {
			by = strings.TrimPrefix(o.Suite, "./") + " " + o.Test
		}
		fmt.Fprintf(w, "%s\t%s\t%.1f\n", m.Name, by, outcomes[i].Took.Seconds())
	}
	w.Flush()
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
