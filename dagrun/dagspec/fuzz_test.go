package dagspec

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// FuzzParse checks that no input panics, that problems have positions, and that accepted files compile and survive JSON.
func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob("testdata/*/*.*")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		if src, err := os.ReadFile(path); err == nil && filepath.Ext(path) != ".golden" && len(src) < 8192 {
			f.Add(src)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 16<<10 {
			return
		}
		spec, err := Parse("fuzz.yaml", src)
		if err != nil {
			checkErrors(t, err)
			return
		}
		if _, err := spec.Graph(); err != nil {
			t.Fatalf("accepted, and does not compile: %v", err)
		}
		text, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		back, err := FromJSON(text)
		if err != nil {
			t.Fatalf("accepted, and cannot be read back: %v\n%s", err, text)
		}
		if back.Hash() != spec.Hash() {
			t.Fatalf("another hash after JSON:\n%s\n%s", text, mustMarshal(t, back))
		}
		if _, err := ParseJSON(text); err != nil {
			t.Fatalf("its own JSON is refused: %v\n%s", err, text)
		}
	})
}

func checkErrors(t *testing.T, err error) {
	t.Helper()
	errs, ok := errors.AsType[Errors](err)
	if !ok || len(errs) == 0 {
		t.Fatalf("%T: %v", err, err)
	}
	for i, e := range errs {
		if e.Msg == "" || e.Line < 0 || e.Column < 0 || len([]rune(e.Source)) > sourceWidth+2 { // a cut is marked on both sides
			t.Fatalf("%+v", e)
		}
		if i > 0 && errs[i-1].Line > e.Line && e.Line > 0 {
			t.Fatalf("not in order: %v", errs)
		}
	}
}

// FuzzExpression checks that compiling and evaluating never panic, as a condition and as a computed value.
func FuzzExpression(f *testing.F) {
	for _, text := range []string{
		`params.n == 3`, `steps.ok.outputs.text | default("x") == "x"`, `len(filter(params.obj.list, # == 1)) > 0`, `let x = 1; x`,
		`steps["ok"]?.outputs?.data.k`, `params.obj[1:2]`, `{"a": steps}.a`, `run.logical_at.In(timezone("x"))`, `run.previous_logical_at == null || null`, `map(1..3, {#: 1})`,
		`steps.many-items?.items.total - 1`, `matrix({a: 1..2})[0].a`, `range(-1, params.n)`, `format(run.logical_at, "2006")`, "/* } */ `a``b` + '}'",
	} {
		f.Add(text)
	}
	spec, err := Parse("eval.yaml", []byte(evalDAG))
	if err != nil {
		f.Fatal(err)
	}
	params, err := spec.Params(nil)
	if err != nil {
		f.Fatal(err)
	}
	names := newNames(spec)
	names = names.of(names.steps["t"])
	scope := evalScope()
	scope.context = Context{Params: params}
	f.Fuzz(func(t *testing.T, text string) {
		e, problems := names.compile(text, wantBool)
		if (e == nil) != (len(problems) > 0) {
			t.Fatalf("%v, %v", e, problems)
		}
		if e != nil {
			_, _ = e.Eval(scope)
		}
		texts, _ := parseTemplate(opening + text + "}")
		for _, span := range texts {
			if e, _ := names.compute(span.source, wantValue); e != nil {
				fuzzValue(t, e, scope)
			}
		}
	})
}

func fuzzValue(t *testing.T, e *expression, scope fakeScope) {
	t.Helper()
	v, err := newView(scope, e.names)
	if err != nil {
		t.Fatal(err)
	}
	value, err := v.evaluate(e)
	if err != nil {
		return
	}
	if _, err := compactJSON(value); err != nil {
		t.Fatalf("%s: %v", e, err)
	}
}
