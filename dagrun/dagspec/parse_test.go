package dagspec

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var compareSpecs = cmpopts.IgnoreUnexported(Step{}, Output{})

func readGood(tb testing.TB) map[string]*Spec {
	tb.Helper()
	paths, err := filepath.Glob("testdata/good/*.*")
	if err != nil || len(paths) == 0 {
		tb.Fatal("no good files", err)
	}
	specs := map[string]*Spec{}
	for _, path := range paths {
		src, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		spec, err := Parse(path, src)
		if err != nil {
			tb.Fatalf("%s:\n%v", path, err)
		}
		specs[filepath.Base(path)] = spec
	}
	return specs
}

func mustParse(tb testing.TB, text string) *Spec {
	tb.Helper()
	spec, err := Parse("test.yaml", []byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return spec
}

func mustMarshal(tb testing.TB, v any) []byte {
	tb.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

func TestSpec_SurvivesJSONWithTheSameHash(t *testing.T) {
	t.Parallel()
	for name, spec := range readGood(t) {
		text := mustMarshal(t, spec)
		var shuffled any // as jsonb does: keys in another order, numbers in another form
		if err := json.Unmarshal(text, &shuffled); err != nil {
			t.Fatal(err)
		}
		for how, src := range map[string][]byte{"stored": text, "reordered": mustMarshal(t, shuffled)} {
			for reader, read := range map[string]func([]byte) (*Spec, error){"FromJSON": FromJSON, "ParseJSON": ParseJSON} {
				back, err := read(src)
				if err != nil {
					t.Errorf("%s, %s, %s: %v", name, how, reader, err)
					continue
				}
				if diff := cmp.Diff(spec, back, compareSpecs, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s, %s, %s (-file +read back):\n%s", name, how, reader, diff)
				}
				if back.Hash() != spec.Hash() {
					t.Errorf("%s, %s, %s: another hash", name, how, reader)
				}
			}
		}
	}
}

func TestSpec_HashFollowsMeaningNotSpelling(t *testing.T) {
	t.Parallel()
	base := mustParse(t, "name: x\nsteps:\n  - id: a\n    run: echo\n    timeout: 90s\n    depends: []\n").Hash()
	same := mustParse(t, `{"steps": [{"timeout": "1m30s", "run": "echo", "id": "a"}], "name": "x", "priority": 0}`).Hash()
	other := mustParse(t, "name: x\nsteps:\n  - id: a\n    run: echo\n    timeout: 91s\n").Hash()
	if base != same {
		t.Error("the same DAG, spelled differently, has another hash")
	}
	if base == other {
		t.Error("another timeout has the same hash")
	}
}

func TestSpec_UnmarshalJSONFillsDefaults(t *testing.T) {
	t.Parallel()
	var spec Spec
	if err := json.Unmarshal([]byte(`{"name": "x", "steps": [{"id": "a", "run": "echo", "foreach": {"items": [1]}}]}`), &spec); err != nil {
		t.Fatal(err)
	}
	if spec.Queue != "default" || spec.MaxDrives != 5 || spec.Steps[0].Foreach.MaxItems != 1000 || spec.Retention.LogsDays != 14 {
		t.Errorf("defaults are missing: %+v", spec)
	}
}

func TestFromJSON_RefusesWhatIsNoSpec(t *testing.T) {
	t.Parallel()
	for _, src := range []string{``, `null`, `[]`, `{}`, `{"name": 1, "steps": []}`, `{"name": "x", "steps": [{"id": "a", "run": "x", "nosuch": 1}]}`, `{"name": "x"`} {
		if spec, err := FromJSON([]byte(src)); err == nil {
			t.Errorf("%s is accepted: %+v", src, spec)
		}
	}
}

func TestParse_MergesDefaultsIntoSteps(t *testing.T) {
	t.Parallel()
	spec := readGood(t)["everything.yaml"]
	steps := map[string]Step{}
	for _, s := range spec.Steps {
		steps[s.ID] = s
	}
	checks := []struct {
		what      string
		got, want any
	}{
		{"timeout from defaults", steps["extract"].Timeout.Value, 10 * minute},
		{"own timeout", *steps["uses"].Timeout, Span{}},
		{"env from defaults", steps["extract"].Env["COMMON"], "x"},
		{"retry_policy from defaults", *steps["extract"].RetryPolicy, RetryPolicy{Limit: Count{Value: 2}, Interval: Span{Value: second}, Backoff: 2, MaxInterval: Span{Value: 5 * minute}, Jitter: 0.2}},
		{"own retry_policy", steps["sum"].RetryPolicy.Limit.Value, 3},
		{"kill, key by key", *steps["uses"].Kill, Kill{Signal: "SIGINT", Grace: second, Leftovers: "keep"}},
		{"pool from defaults", steps["extract"].Pool, Pools{{Name: "heavy", Weight: 1}}},
		{"own pool, none", steps["sum"].Pool, Pools{}},
		{"own on_lost", steps["uses"].OnLost, "retry"},
		{"on_lost from defaults", steps["extract"].OnLost, "fail"},
		{"handler", spec.HandlerOn.Init.Timeout.Value, 10 * minute},
		{"handler's own", spec.HandlerOn.Exit.Timeout.Value, minute},
		{"integers in env", spec.Env["THREADS"], "4"},
		{"integers in args", steps["per-region"].Args.List[4], "7"},
		{"booleans in labels", spec.Labels["gpu"], "true"},
	}
	for _, c := range checks {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestParse_FollowsAnchorsAndMergeKeys(t *testing.T) {
	t.Parallel()
	spec := readGood(t)["anchors.yaml"]
	two, three := spec.Steps[1], spec.Steps[2]
	if two.ID != "two" || two.Run != "load" || two.RetryPolicy.Limit.Value != 3 {
		t.Errorf("two is %+v", two)
	}
	if diff := cmp.Diff(map[string]string{"A": "x", "B": "y"}, two.Env); diff != "" {
		t.Error(diff)
	}
	if three.ID != "three" || three.Timeout.Value != 5*minute || three.Run != "load" {
		t.Errorf("three is %+v", three)
	}
}

func TestParse_ReadsCRLFAndBOM(t *testing.T) {
	t.Parallel()
	if run := readGood(t)["windows.yaml"].Steps[0].Run; run != "echo one\necho two\n" {
		t.Errorf("run is %q", run)
	}
}

func TestParse_BoundsWhatItReports(t *testing.T) {
	t.Parallel()
	_, err := Parse("x.yaml", []byte("name: x\nsteps: [{id: a, run: echo}]\nlabels: {"+strings.Repeat("'!': [], ", 1)+"}\n"+strings.Repeat("k: v\n", 4000)))
	errs, ok := errors.AsType[Errors](err)
	if !ok || len(errs) != maxErrors+1 {
		t.Fatalf("%d problems, %T", len(errs), err)
	}
	if last := errs[maxErrors]; !strings.Contains(last.Msg, "more problems") {
		t.Errorf("the last one does not say that there are more: %v", last)
	}
}
