package dagspec

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun"
)

func TestSpec_BindFillsInQuantities(t *testing.T) {
	t.Parallel()
	spec := readGood(t)["quantities.yaml"]
	if diff := cmp.Diff([]string{"limit", "pause", "tries", "width"}, spec.BoundParams()); diff != "" {
		t.Error(diff)
	}
	before := spec.Hash()
	bind := func(given map[string]any) dagrun.Spec {
		t.Helper()
		params, err := spec.Params(given)
		if err != nil {
			t.Fatal(err)
		}
		bound, err := spec.Bind(params)
		if err != nil {
			t.Fatal(err)
		}
		out, err := bound.Compile()
		if err != nil || len(bound.BoundParams()) > 0 {
			t.Fatal(bound.BoundParams(), err)
		}
		return out
	}
	first, second := bind(map[string]any{"pause": "2s", "width": 4}), bind(map[string]any{"pause": "1m", "width": "9", "limit": "90s", "tries": 0})
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"DAG", []any{first.Timeout, first.MaxActive, second.Timeout, second.MaxActive}, []any{dagrun.Duration(36 * hour), 4, dagrun.Duration(90_000), 9}},
		{"timeout from defaults", []any{first.Steps[0].Timeout, first.Handlers[0].Timeout, second.Steps[0].Timeout}, []any{dagrun.Duration(36 * hour), dagrun.Duration(36 * hour), dagrun.Duration(90_000)}},
		{"retry_policy", first.Steps[0].Retry, dagrun.RetryPolicy{Limit: 3, Interval: 2000, Backoff: 2, MaxInterval: dagrun.Duration(36 * hour), Jitter: 0.2}},
		{"retry_policy of another run", []any{second.Steps[0].Retry.Limit, second.Steps[0].Retry.Interval}, []any{0, dagrun.Duration(60_000)}},
		{"foreach", []any{first.Steps[0].Foreach.MaxConcurrent, second.Steps[0].Foreach.MaxConcurrent}, []any{4, 9}},
		{"publish", []any{first.Steps[0].PublishTimeout, second.Steps[0].PublishTimeout}, []any{dagrun.Duration(2000), dagrun.Duration(60_000)}},
		{"replacement", []any{first.Steps[0].OnError[0].With[0].Timeout, first.Steps[0].OnError[0].With[0].Retry.Limit, second.Steps[0].OnError[0].With[0].Timeout}, []any{dagrun.Duration(2000), 3, dagrun.Duration(60_000)}},
		{"approval", []any{first.Steps[1].Timeout, second.Steps[1].Timeout}, []any{dagrun.Duration(2000), dagrun.Duration(60_000)}},
		{"fixed", []any{first.Steps[2].Timeout, first.Steps[2].Retry.Limit}, []any{dagrun.Duration(300_000), 2}},
		{"the spec itself", spec.Hash(), before},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
}

func TestSpec_BindReturnsAnOrdinarySpec(t *testing.T) {
	t.Parallel()
	spec := readGood(t)["everything.yaml"]
	if bound, err := spec.Bind(nil); bound != spec || err != nil {
		t.Errorf("%p, not %p: %v", bound, spec, err)
	}
}

func TestParams_MustFitQuantities(t *testing.T) {
	t.Parallel()
	spec := readGood(t)["quantities.yaml"]
	for _, c := range []struct {
		given map[string]any
		want  string
	}{
		{map[string]any{"pause": "soon", "width": 4}, `param "pause": cannot be retry_policy.interval of step all: "soon" is not a duration: write a number and a unit, such as 90s, 10m or 1d12h`},
		{map[string]any{"pause": "90", "width": 4}, `"90" is not a duration`},
		{map[string]any{"pause": "40000d", "width": 4}, `"40000d" is too long: at most 36500d`},
		{map[string]any{"pause": "1s", "width": -1}, `param "width": cannot be max_active_steps: -1 is not a whole number from 1 on` + "\n" + `param "width": cannot be foreach.max_concurrent of step all: -1`},
		{map[string]any{"pause": "1s", "width": 1, "tries": 1001}, `param "tries": must be 1000 or less, not 1001`},
		{map[string]any{"width": 1}, `param "pause": is required`},
		{map[string]any{"pause": "1s", "width": 0}, `param "width": cannot be max_active_steps: 0 would be no limit` + "\n" + `param "width": cannot be foreach.max_concurrent of step all: 0`},
		{map[string]any{"pause": "0m", "width": 1}, `param "pause": cannot be publish.timeout of step all: "0m" would be no limit`},
	} {
		got, err := spec.Params(c.given)
		if err == nil || !strings.Contains(err.Error(), c.want) || got != nil {
			t.Errorf("%v: %v, want %s", c.given, err, c.want)
		}
		if _, err := spec.Bind(c.given); err == nil {
			t.Errorf("%v is bound", c.given)
		}
	}
}

func TestSchema_LimitsRetriesAsQuantitiesDo(t *testing.T) {
	t.Parallel()
	if got := schema().at("#/definitions/retry_policy/properties/limit/else")["maximum"]; cmp.Diff(toFloat(got), float64(retryLimitMax)) != "" {
		t.Errorf("the schema has %v, retryLimitMax is %d", got, retryLimitMax)
	}
}

func toFloat(v any) float64 {
	f, _ := number(v)
	return f
}

func TestStep_ApprovalReadsInputsLikeParams(t *testing.T) {
	t.Parallel()
	spec := mustParse(t, `{name: x, steps: [{id: ask, action: approval, with: {inputs: [ticket,
		{name: n, type: integer, default: 9007199254740993, minimum: 1}, {name: env, enum: [a, b], required: true, description: Where.}]}}]}`)
	one := 1.0
	want := []Param{
		{Name: "ticket", Type: "string"},
		{Name: "n", Type: "integer", Default: int64(9007199254740993), Minimum: &one},
		{Name: "env", Type: "string", Enum: []any{"a", "b"}, Required: true, Description: "Where."},
	}
	if diff := cmp.Diff(want, spec.Steps[0].Approval().Inputs); diff != "" {
		t.Error(diff)
	}
	for outputs, want := range map[string]string{
		``: "", `{}`: "", `{"n": 3, "env": "a", "comment": 7}`: "",
		`{"n": 0}`: "input n must be 1 or more, not 0", `{"env": "c"}`: `input env must be "a" or "b", not "c"`, `{"ticket": 7}`: "input ticket must be a text, not 7",
	} {
		got := ""
		if err := spec.Steps[0].CheckInputs(dagrun.JSON(outputs)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", outputs, got, want)
		}
	}
}

// A backfill gives a part of the params, since its schedule has the others. A param that it leaves out is no mistake. A param that it
// gives must fit.
func TestParams_OfAPartNeedNotFitWhatIsNotGiven(t *testing.T) {
	t.Parallel()
	part := *readGood(t)["quantities.yaml"]
	part.ParamDefs = slices.Clone(part.ParamDefs)
	for i := range part.ParamDefs {
		part.ParamDefs[i].Required = false
	}
	if _, err := part.Params(map[string]any{"pause": "2s"}); err != nil {
		t.Error(err)
	}
	if _, err := part.Params(map[string]any{"pause": "soon"}); err == nil {
		t.Error("a text that is no duration is accepted")
	}
}
