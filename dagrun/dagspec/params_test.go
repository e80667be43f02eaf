package dagspec

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const paramsDAG = `
name: x
params:
  - {name: day, required: true, pattern: '^\d{4}-\d{2}-\d{2}$', max_length: 10}
  - {name: n, type: integer, default: 5, minimum: 1, maximum: 10}
  - {name: f, type: number, minimum: 0.5}
  - {name: on, type: boolean, default: false}
  - {name: obj, type: json}
  - {name: mode, enum: [full, delta], default: full}
  - {name: level, type: integer, enum: [1, 2]}
steps: [{id: a, run: x}]
`

func TestParams_CheckDefaultAndCoerce(t *testing.T) {
	t.Parallel()
	spec := mustParse(t, paramsDAG)
	for _, c := range []struct{ given, want map[string]any }{
		{map[string]any{"day": "2026-11-20"}, map[string]any{}},
		{map[string]any{"day": "2026-11-20", "n": 7.0, "f": json.Number("2"), "on": true, "level": 2}, map[string]any{"n": int64(7), "f": 2.0, "on": true, "level": int64(2)}},
		{map[string]any{"day": "2026-11-20", "n": "7", "f": "1e1", "on": "true"}, map[string]any{"n": int64(7), "f": 10.0, "on": true}},
		{map[string]any{"day": "2026-11-20", "n": 1, "f": 0.5}, map[string]any{"n": int64(1), "f": 0.5}},
		{map[string]any{"day": "2026-11-20", "n": 10}, map[string]any{"n": int64(10)}},
		{map[string]any{"day": "2026-11-20", "n": nil, "obj": map[string]any{"a": json.Number("1")}}, map[string]any{"obj": map[string]any{"a": int64(1)}}},
	} {
		want := map[string]any{"day": "2026-11-20", "n": int64(5), "f": nil, "on": false, "obj": nil, "mode": "full", "level": nil}
		maps.Copy(want, c.want)
		got, err := spec.Params(c.given)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v: %v\n%s", c.given, err, diff)
		}
	}
}

func TestParams_ReportEveryProblem(t *testing.T) {
	t.Parallel()
	_, err := mustParse(t, paramsDAG).Params(map[string]any{
		"n": 0, "f": "much", "on": "yes", "mode": "ful", "dya": "x", "level": 3, "obj": []any{"a\x00b"},
	})
	want := `param "day": is required
param "n": must be 1 or more, not 0
param "f": must be a number, not "much"
param "on": must be true or false, not "yes"
param "obj": must be UTF-8 without NUL
param "mode": must be "full" or "delta", not "ful"
param "level": must be 1 or 2, not 3
param "dya": unknown (did you mean day?)`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestParams_NameTheParamOfANumberThatIsTooLarge(t *testing.T) {
	t.Parallel()
	huge := json.Number("-1" + strings.Repeat("0", 400))
	for _, given := range []any{huge, []any{huge}, map[string]any{"a": []any{"x", huge}}} {
		_, err := mustParse(t, paramsDAG).Params(map[string]any{"day": "2026-11-20", "obj": given})
		if want := `param "obj": a number is too large: write it as a text`; err == nil || err.Error() != want {
			t.Errorf("%.20v: got %v, want %s", given, err, want)
		}
	}
}

func TestParams_RefuseOtherTypes(t *testing.T) {
	t.Parallel()
	spec := mustParse(t, paramsDAG)
	for _, given := range []map[string]any{
		{"day": 20261120},
		{"day": true},
		{"day": "2026-11-20 "},
		{"day": "12026-11-20"},
		{"day": "2026-11-20", "n": 1.5},
		{"day": "2026-11-20", "n": "1.5"},
		{"day": "2026-11-20", "n": true},
		{"day": "2026-11-20", "f": "NaN"},
		{"day": "2026-11-20", "f": "0x10"},
		{"day": "2026-11-20", "on": 1},
	} {
		if got, err := spec.Params(given); err == nil {
			t.Errorf("%v is accepted: %v", given, got)
		}
	}
}

func TestParamsFromText_ReadsJSONParamsAsJSON(t *testing.T) {
	t.Parallel()
	spec := mustParse(t, paramsDAG)
	got, err := spec.ParamsFromText(map[string]string{"day": "2026-11-20", "n": "3", "obj": `{"big": 9007199254740993}`})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"big": int64(9007199254740993)}, got["obj"]); diff != "" || got["n"] != int64(3) {
		t.Error(diff, got["n"])
	}
	if _, err := spec.ParamsFromText(map[string]string{"day": "2026-11-20", "obj": "plain"}); err == nil || !strings.Contains(err.Error(), "not JSON") {
		t.Errorf("plain text for a json param: %v", err)
	}
	if _, err := spec.ParamsFromText(map[string]string{"day": "2026-11-20", "n": ""}); err == nil {
		t.Error("an empty text is an integer")
	}
}
