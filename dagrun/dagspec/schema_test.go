package dagspec

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// schemaOf lists the Go types for the definitions of the schema ("" is the whole file).
var schemaOf = map[string]reflect.Type{
	"": reflect.TypeFor[Spec](), "param": reflect.TypeFor[Param](), "secret": reflect.TypeFor[Secret](),
	"schedule": reflect.TypeFor[Schedule](), "concurrency": reflect.TypeFor[Concurrency](), "retry_policy": reflect.TypeFor[RetryPolicy](), "kill": reflect.TypeFor[Kill](),
	"result": reflect.TypeFor[Result](), "error_rule": reflect.TypeFor[ErrorRule](), "foreach": reflect.TypeFor[Foreach](),
	"cache": reflect.TypeFor[Cache](), "step": reflect.TypeFor[Step](), "depend/else": reflect.TypeFor[Depend](),
	"pool_use/else": reflect.TypeFor[PoolUse](), "output/else": reflect.TypeFor[Output](), "stdin/then": reflect.TypeFor[Stdin](), "continue_on/else": reflect.TypeFor[ContinueOn](),
}

func definition(t *testing.T, name string) map[string]any {
	t.Helper()
	if name == "" {
		return schema().at("#")
	}
	def := schema().at("#/definitions/" + name)
	if def == nil {
		t.Fatalf("the schema has no definition %s", name)
	}
	return def
}

func properties(t *testing.T, name string) []string {
	t.Helper()
	p, _ := definition(t, name)["properties"].(map[string]any)
	return slices.Sorted(maps.Keys(p))
}

func TestSchema_HasTheFieldsOfTheGoTypes(t *testing.T) {
	t.Parallel()
	for name, goType := range schemaOf {
		want := sortedKeys(fieldNames(goType))
		if name == "" {
			want = append(want, "defaults") // merged into the steps when a file is read
			slices.Sort(want)
		}
		if diff := cmp.Diff(want, properties(t, name)); diff != "" {
			t.Errorf("definition %q (-Go +schema):\n%s", name, diff)
		}
	}
	for key, goType := range map[string]reflect.Type{"allow": reflect.TypeFor[Allow](), "retention": reflect.TypeFor[Retention](), "handler_on": reflect.TypeFor[Handlers]()} {
		p, _ := schema().at("#/properties/" + key)["properties"].(map[string]any)
		if diff := cmp.Diff(sortedKeys(fieldNames(goType)), sortedKeys(p)); diff != "" {
			t.Errorf("%s (-Go +schema):\n%s", key, diff)
		}
	}
}

func TestSchema_DescribesEveryStructOfTheSpec(t *testing.T) {
	t.Parallel()
	described := map[reflect.Type]bool{
		reflect.TypeFor[Allow](): true, reflect.TypeFor[Retention](): true, reflect.TypeFor[Handlers](): true,
		reflect.TypeFor[Items](): true, reflect.TypeFor[Priority](): true, reflect.TypeFor[StepSecrets](): true,
		reflect.TypeFor[Span](): true, reflect.TypeFor[Count](): true, reflect.TypeFor[Args](): true,
	}
	for _, goType := range schemaOf {
		described[goType] = true
	}
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(goType reflect.Type) {
		for goType.Kind() == reflect.Pointer || goType.Kind() == reflect.Slice || goType.Kind() == reflect.Map {
			goType = goType.Elem()
		}
		if goType.Kind() != reflect.Struct || seen[goType] {
			return
		}
		seen[goType] = true
		if !described[goType] {
			t.Errorf("the schema does not describe %s", goType)
		}
		for f := range goType.Fields() {
			if f.IsExported() {
				visit(f.Type)
			}
		}
	}
	visit(reflect.TypeFor[Spec]())
}

func TestSchema_KindsOfFieldsAreThoseOfGo(t *testing.T) {
	t.Parallel()
	own := reflect.TypeFor[own]()
	kinds := map[reflect.Kind][]string{
		reflect.String: {"string"}, reflect.Bool: {"boolean"}, reflect.Int: {"integer"}, reflect.Float64: {"number"},
		reflect.Slice: {"array", "object"}, reflect.Map: {"object"}, reflect.Struct: {"object"},
	}
	for name, goType := range schemaOf {
		for field, i := range fieldNames(goType) {
			f := goType.Field(i).Type
			for f.Kind() == reflect.Pointer {
				f = f.Elem()
			}
			part := resolved(definition(t, name)["properties"].(map[string]any)[field].(map[string]any))
			if reflect.PointerTo(f).Implements(own) || f.Kind() == reflect.Interface || part["enum"] != nil {
				continue
			}
			want := kinds[f.Kind()]
			switch f {
			case reflect.TypeFor[Duration]():
				want = []string{"string"}
			case reflect.TypeFor[[]Schedule](): // an element may be a text
				want = append([]string{"string"}, want...)
			}
			for _, got := range typesOf(part) {
				if !slices.Contains(want, got) {
					t.Errorf("%s.%s is %s in Go and %s in the schema", name, field, f, got)
				}
			}
		}
	}
}

func resolved(part map[string]any) map[string]any {
	for {
		ref, ok := part["$ref"].(string)
		if !ok {
			return part
		}
		part = schema().at(ref)
	}
}

func typesOf(part map[string]any) []string {
	if one, ok := part["type"].(string); ok {
		return []string{one}
	}
	list, _ := part["type"].([]any)
	return words(list)
}

func TestSchema_PartsOfStepsHaveFieldsOfSteps(t *testing.T) {
	t.Parallel()
	steps := properties(t, "step")
	for _, part := range []string{"handler", "replacement", "publish", "defaults"} {
		for _, field := range properties(t, part) {
			if !slices.Contains(steps, field) {
				t.Errorf("%s has %s, which no step has", part, field)
			}
		}
	}
}

func TestSchema_EnumsAreThoseOfTheCore(t *testing.T) {
	t.Parallel()
	enum := func(pointer string) []string {
		list, _ := schema().at(pointer)["enum"].([]any)
		return words(list)
	}
	rules := []string{"always"}
	for r := dagrun.AllSuccess; r <= dagrun.NoneSkipped; r++ {
		rules = append(rules, r.String())
	}
	var does []string
	for d := dagrun.DoRetry; d <= dagrun.DoAsk; d++ {
		does = append(does, d.String())
	}
	for pointer, want := range map[string][]string{
		"#/definitions/step/properties/trigger_rule":        rules,
		"#/definitions/error_rule/properties/do":            does,
		"#/definitions/depend/else/properties/state":        {"succeeded", "finished", "started"},
		"#/definitions/on_lost":                             {"retry", "fail"},
		"#/definitions/param/properties/type":               append(sortedKeys(paramTypes), "json"),
		"#/definitions/output/else/properties/type":         append(sortedKeys(outputTypes), "json"),
		"#/definitions/continue_on/then":                    {"failed", "skipped"},
		"#/definitions/retry_policy/properties/kinds/items": {"exit", "timeout", "signal", "spawn", "lost", "output", "http", "sql", "panic", "rejected", "child"},
	} {
		got := enum(pointer)
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-core +schema):\n%s", pointer, diff)
		}
	}
}

func TestSchema_DescribesEveryBuiltInAction(t *testing.T) {
	t.Parallel()
	var described []string
	for name := range schema().at("#/definitions") {
		if action, ok := strings.CutPrefix(name, "with."); ok {
			described = append(described, action)
		}
	}
	slices.Sort(described)
	if diff := cmp.Diff(sortedKeys(builtins), described); diff != "" {
		t.Errorf("(-Go +schema):\n%s", diff)
	}
	chosen := schema().at("#/definitions/actions")["allOf"].([]any)
	if len(chosen) != len(builtins) {
		t.Errorf("%d actions choose a schema for their with, of %d", len(chosen), len(builtins))
	}
}

func TestSchema_DefaultsAreNoSurprise(t *testing.T) {
	t.Parallel()
	if !json.Valid(Schema()) {
		t.Fatal("the schema is no JSON")
	}
	Schema()[0] = 'x'
	if Schema()[0] == 'x' {
		t.Error("a caller can change the schema")
	}
}
