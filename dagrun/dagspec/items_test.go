package dagspec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun"
)

func expand(t *testing.T, foreach string, params map[string]any) ([]dagrun.Item, error) {
	t.Helper()
	spec := mustParse(t, fmt.Sprintf(`
name: x
params: [{name: list, type: json, default: [a, b, c, d, e]}, {name: base, default: k}]
steps:
  - {id: a, run: x, outputs: [{name: l, type: json}]}
  - {id: b, run: x, depends: [a], foreach: %s}
`, foreach))
	given, err := spec.Params(params)
	if err != nil {
		t.Fatal(err)
	}
	g, err := spec.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return g.Step(1).Foreach.Items.Expand(fakeScope{
		context: Context{Params: given},
		steps:   map[string]dagrun.StepView{"a": {State: dagrun.TaskSucceeded, Outputs: `{"l":[{"id":1},{"id":2}]}`}},
	})
}

func TestExpand_MakesItems(t *testing.T) {
	t.Parallel()
	for foreach, want := range map[string][]dagrun.Item{
		`{items: [x, 2, {b: 1, a: [true, null]}]}`: {{Key: "0", Value: `"x"`}, {Key: "1", Value: "2"}, {Key: "2", Value: `{"a":[true,null],"b":1}`}},
		`{items: []}`: {},
		`{items: ["${params.base}", "x${params.base}"]}`:                   {{Key: "k", Value: `"k"`}, {Key: "xk", Value: `"xk"`}},
		`{items: [eu, us, eu]}`:                                            {{Key: "0", Value: `"eu"`}, {Key: "1", Value: `"us"`}, {Key: "2", Value: `"eu"`}},
		`{items: [eu, 1]}`:                                                 {{Key: "eu", Value: `"eu"`}, {Key: "1", Value: "1"}},
		`{items: [eu, "a/b"]}`:                                             {{Key: "0", Value: `"eu"`}, {Key: "1", Value: `"a/b"`}},
		`{items: [eu, "aaaaaaaaaabbbbbbbbbbccccccccccdddddddddde"]}`:       {{Key: "0", Value: `"eu"`}, {Key: "1", Value: `"aaaaaaaaaabbbbbbbbbbccccccccccdddddddddde"`}},
		`{items: [2026-11-23, v1.2_x, "7"]}`:                               {{Key: "2026-11-23", Value: `"2026-11-23"`}, {Key: "v1.2_x", Value: `"v1.2_x"`}, {Key: "7", Value: `"7"`}},
		`{items: "${params.list}"}`:                                        {{Key: "a", Value: `"a"`}, {Key: "b", Value: `"b"`}, {Key: "c", Value: `"c"`}, {Key: "d", Value: `"d"`}, {Key: "e", Value: `"e"`}},
		`{items: "${steps.a.outputs.l}", key: item.id}`:                    {{Key: "1", Value: `{"id":1}`}, {Key: "2", Value: `{"id":2}`}},
		`{items: "${params.list}", batch: 2}`:                              {{Key: "0", Value: `["a","b"]`}, {Key: "2", Value: `["c","d"]`}, {Key: "4", Value: `["e"]`}},
		`{items: "${params.list}", batch: 3, as: x, key: params.base + x}`: {{Key: "ka", Value: `["a","b","c"]`}, {Key: "kd", Value: `["d","e"]`}},
		`{items: ["<&>"]}`:                                                 {{Key: "0", Value: `"<&>"`}},
		`{items: [3, 1, 2]}`:                                               {{Key: "3", Value: "3"}, {Key: "1", Value: "1"}, {Key: "2", Value: "2"}},
		`{items: [1, "1"]}`:                                                {{Key: "0", Value: "1"}, {Key: "1", Value: `"1"`}},
		`{items: [7, -1]}`:                                                 {{Key: "0", Value: "7"}, {Key: "1", Value: "-1"}},
		`{items: [7, 1.5]}`:                                                {{Key: "0", Value: "7"}, {Key: "1", Value: "1.5"}},
		`{items: [7, 8.0, 9007199254740993]}`:                              {{Key: "7", Value: "7"}, {Key: "8", Value: "8"}, {Key: "9007199254740993", Value: "9007199254740993"}},
		`{items: [5, 6, 7], batch: 2}`:                                     {{Key: "0", Value: "[5,6]"}, {Key: "2", Value: "[7]"}},
	} {
		got, err := expand(t, foreach, nil)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", foreach, err, diff)
		}
	}
}

func TestExpand_Refuses(t *testing.T) {
	t.Parallel()
	for foreach, want := range map[string]string{
		`{items: "${params.list}", max_items: 4}`:        "5 items are more than max_items, 4",
		`{items: "${params.base}"}`:                      "is not a list",
		`{items: "${params.list}", key: item.nope.deep}`: "foreach.key of item 0",
		`{items: "${params.list}", key: "''"}`:           "the value is empty, and cannot be a key",
	} {
		if got, err := expand(t, foreach, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", foreach, got, err)
		}
	}
}
