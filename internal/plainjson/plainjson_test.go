package plainjson

import (
	"encoding/json"
	"math"
	"testing"
)

func TestCompact_EscapesNothingForHTML(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]any{
		`"a < b && c > d"`:     "a < b && c > d",
		`"a\n"`:                "a\n",
		`{"a":[1,null,"<"]}`:   map[string]any{"a": []any{1, nil, "<"}},
		`{"a":1}`:              json.RawMessage(`{ "a" : 1 }`),
		`12345678901234567890`: json.Number("12345678901234567890"),
	} {
		if got, err := Compact(value); string(got) != want || err != nil {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	if got, err := Compact(math.NaN()); err == nil {
		t.Errorf("NaN became %s", got)
	}
}
