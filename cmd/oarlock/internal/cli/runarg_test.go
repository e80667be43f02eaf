package cli

import (
	"strings"
	"testing"
)

func TestParseRun_TakesNumbersAndTheLatest(t *testing.T) {
	t.Parallel()
	cases := map[string]runArg{"41": {id: 41}, "0041": {id: 41}, "9223372036854775807": {id: 1<<63 - 1}, "@latest": {latest: true}}
	for word, want := range cases {
		if got, err := parseRun(word); err != nil || got != want {
			t.Errorf("%s: got %v and %v, want %v", word, got, err, want)
		}
	}
}

func TestParseRun_SaysWhatARunIs(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"", "0", "-1", "4x", "load", "@last", "@exit", "9223372036854775808", "1.5", "+1 "} {
		_, err := parseRun(word)
		p := diagnose(t.Context(), err)
		if p.kind != usage || !strings.HasPrefix(p.message, "a run is a number or @latest, not ") || p.hint == "" {
			t.Errorf("%q: got %v %q, hint %q", word, p.kind, p.message, p.hint)
		}
	}
}

func TestLooksLikeRun_TellsRunsFromSteps(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]bool{"41": true, "@latest": true, "4x": true, "load": false, "@exit": false, "": false} {
		if looksLikeRun(word) != want {
			t.Errorf("%q looks like a run: %v", word, !want)
		}
	}
}
