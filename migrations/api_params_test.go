package migrations_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// problem is the text of the message after the name of the param; "": the param is accepted.
var params = []struct{ def, given, problem string }{
	{`"type": "string"`, `"x"`, ""},
	{`"type": "string"`, `""`, ""},
	{`"type": "string"`, `null`, ""},
	{`"type": "string"`, `7`, "must be a text"},
	{`"type": "string"`, `["x"]`, "must be a text"},
	{`"type": "string", "required": true`, `null`, "is required"},
	{`"type": "string", "required": true, "default": "d"`, `null`, ""},
	{`"type": "string", "enum": ["a", "b\"c"]`, `"b\"c"`, ""},
	{`"type": "string", "enum": ["a", "b"]`, `"c"`, "must be one of"},
	{`"type": "string", "min_length": 2`, `"é"`, "must have 2 characters or more, not 1"},
	{`"type": "string", "max_length": 2`, `"éé"`, ""},
	{`"type": "string", "max_length": 2`, `"ééé"`, "must have 2 characters or less, not 3"},
	{`"type": "integer"`, `7`, ""},
	{`"type": "integer"`, `-7`, ""},
	{`"type": "integer"`, `"7"`, ""},
	{`"type": "integer"`, `1e3`, ""},
	{`"type": "integer"`, `7.0`, "must be a whole number"},
	{`"type": "integer"`, `7.5`, "must be a whole number"},
	{`"type": "integer"`, `"seven"`, "must be a whole number"},
	{`"type": "integer"`, `""`, "must be a whole number"},
	{`"type": "integer"`, `true`, "must be a whole number"},
	{`"type": "integer"`, `[7]`, "must be a whole number"},
	{`"type": "integer"`, `9223372036854775807`, ""},
	{`"type": "integer"`, `9223372036854775808`, "is too large a number"},
	{`"type": "integer"`, `1e300`, "must be a whole number"},
	{`"type": "integer", "minimum": 2, "maximum": 4`, `1`, "must be 2 or more"},
	{`"type": "integer", "minimum": 2, "maximum": 4`, `4`, ""},
	{`"type": "integer", "minimum": 2, "maximum": 4`, `"5"`, "must be 4 or less"},
	{`"type": "integer", "enum": [1, 2]`, `2`, ""},
	{`"type": "integer", "enum": [1, 2]`, `"2"`, ""},
	{`"type": "integer", "enum": [1, 2]`, `3`, "must be one of [1, 2]"},
	{`"type": "number"`, `7.5`, ""},
	{`"type": "number"`, `"7.5e2"`, ""},
	{`"type": "number"`, `"Infinity"`, "must be a number"},
	{`"type": "number"`, `"1e999"`, "is too large a number"},
	{`"type": "number"`, `"1e9999"`, "must be a number"},
	{`"type": "number", "minimum": 0.5`, `0.25`, "must be 0.5 or more"},
	{`"type": "number", "maximum": -1`, `0`, "must be -1 or less"},
	{`"type": "boolean"`, `true`, ""},
	{`"type": "boolean"`, `"false"`, ""},
	{`"type": "boolean"`, `"yes"`, "must be true or false"},
	{`"type": "boolean"`, `1`, "must be true or false"},
	{`"type": "json"`, `{"a": [1, {"b": null}]}`, ""},
	{`"type": "json", "enum": [[1], "x"]`, `[1]`, ""},
	{`"type": "json", "enum": [[1], "x"]`, `1`, "must be one of"},
	{`"type": "json", "required": true`, `null`, "is required"},
}

func TestParams_AreCheckedAsTheDAGSays(t *testing.T) {
	t.Parallel()
	b := api(t)
	for _, c := range params {
		defs, given := `[{"name": "p", `+c.def+`}]`, `{"p": `+c.given+`}`
		_, err := b.conn.Exec(t.Context(), "SELECT oarlock.check_params($1, $2, '')", json.RawMessage(defs), json.RawMessage(given))
		switch {
		case c.problem == "" && err != nil:
			t.Errorf("%s for %s: %v", given, defs, err)
		case c.problem != "" && (err == nil || !strings.Contains(err.Error(), `param "p": `+c.problem) || !strings.Contains(err.Error(), "OA003")):
			t.Errorf("%s for %s: got %v, want %q", given, defs, err, c.problem)
		}
		fine := get[bool](t, b.conn, "SELECT oarlock.plainly_fine($2, '{p}', oarlock.params_path($1), $1 @> '[{\"type\": \"integer\"}]')", json.RawMessage(defs), json.RawMessage(given))
		if fine && c.problem != "" {
			t.Errorf("%s for %s: the short look lets it pass", given, defs)
		}
	}
}

func TestParams_TheShortLookKnowsTheUsualOnes(t *testing.T) {
	t.Parallel()
	b := api(t)
	defs := json.RawMessage(`[{"name": "day", "type": "string", "required": true}, {"name": "n", "type": "integer", "minimum": 1, "maximum": 5},
		{"name": "x", "type": "number"}, {"name": "ok", "type": "boolean"}, {"name": "kind", "type": "string", "enum": ["a", "b"]}, {"name": "any", "type": "json"}]`)
	for given, want := range map[string]bool{
		`{"day": "x"}`: true,
		`{"day": "x", "n": 5, "x": -1, "ok": false, "kind": "b", "any": [1]}`: true,
		`{"day": "x", "n": null, "kind": null, "any": null}`:                  true,
		`{}`:                          false,
		`{"day": null}`:               false,
		`{"day": "x", "other": 1}`:    false,
		`{"day": ["x"]}`:              false,
		`[{"day": "x"}]`:              false,
		`{"day": "x", "n": [3]}`:      false,
		`{"day": "x", "n": 6}`:        false,
		`{"day": "x", "kind": "c"}`:   false,
		`{"day": "x", "kind": ["a"]}`: false,
		`{"day": "x", "ok": "true"}`:  false,
		`{"day": "x", "x": {"y": 1}}`: false,
		`{"day": "x", "x": 1e300}`:    false,
		`{"day": {"type": "string"}}`: false,
		`{"day": "x", "n": {"n": 3}}`: false,
		`{"day": "x", "n": 3.0}`:      false,
	} {
		got := get[bool](t, b.conn, "SELECT oarlock.plainly_fine($2, '{day,n,x,ok,kind,any}', oarlock.params_path($1), true)", defs, json.RawMessage(given))
		if got != want {
			t.Errorf("%s: %v, want %v", given, got, want)
		}
	}
	if path := get[string](t, b.conn, "SELECT oarlock.params_path('[]')::text"); path != "(1 == 1)" {
		t.Errorf("no params: %s", path)
	}
}
