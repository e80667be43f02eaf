package cli

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode"
)

// Texts from a submitter contain no control sequences in the JSON output, and decode to the same values.
func TestJSON_HoldsNothingThatCommandsATerminal(t *testing.T) {
	t.Parallel()
	label := "a\u009b31mb\u202ec\u2066d\x7fe\u00e9ü😀"
	e := &env{Env: Env{}}
	for _, format := range []string{"json", "jsonl"} {
		var out bytes.Buffer
		e.Stdout = &out
		object := map[string]any{"label": label, "raw": json.RawMessage(`"` + "\u009b" + `"`)}
		if err := e.sayAs(format, answer{object: object}); err != nil {
			t.Fatal(err)
		}
		for _, r := range out.String() {
			if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
				t.Errorf("-o %s prints %U", format, r)
			}
		}
		var back struct{ Label, Raw string }
		if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Label != label || back.Raw != "\u009b" {
			t.Errorf("-o %s reads back as %q: %v", format, back, err)
		}
	}
}
