package graphview_test

import (
	"testing"

	"github.com/oarlock-dev/oarlock/internal/graphview"
)

func TestSign_TellsStatesApart(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, state := range []string{"pending", "ready", "running", "retrying", "waiting", "succeeded", "failed", "upstream_failed", "canceled", "what"} {
		glyph, sgr := graphview.Sign(state)
		if glyph == "" || sgr == "" || seen[glyph] != "" {
			t.Errorf("%s has sign %q, colour %q; %q has it too", state, glyph, sgr, seen[glyph])
		}
		seen[glyph] = state
	}
}
