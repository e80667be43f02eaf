package supervise

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

func TestCounts_AreFewShortAndNotNegative(t *testing.T) {
	t.Parallel()
	c := newCounts()
	if err := c.keep(map[string]int64{"lost": 1}); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]map[string]int64{
		"negative": {"lost": -1}, "without a name": {"": 1}, "a long name": {strings.Repeat("x", maxCountName+1): 1},
	} {
		if err := c.keep(bad); err == nil {
			t.Errorf("it keeps one that is %s", name)
		}
	}
	for i := range maxKept - 1 {
		if err := c.keep(map[string]int64{fmt.Sprint(i): 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.keep(map[string]int64{"more": 1}); err == nil {
		t.Errorf("it keeps %d", len(c.kept))
	}
	if err := c.keep(map[string]int64{"lost": 2}); err != nil || c.kept["lost"] != 2 {
		t.Errorf("it does not go on counting: %v, %v", c.kept, err)
	}
}

func TestLink_WithoutAGuardHasNoCounts(t *testing.T) {
	t.Parallel()
	var l *Link
	if err := l.Keep(map[string]int64{"lost": 1}); err != nil || len(l.Kept()) > 0 || !maps.Equal(l.Replaced(), map[Why]int64{}) {
		t.Errorf("%v, %v, %v", err, l.Kept(), l.Replaced())
	}
}
