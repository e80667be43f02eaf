package graphview_test

import (
	"strings"
	"testing"

	"golang.org/x/text/unicode/bidi"

	"github.com/oarlock-dev/oarlock/internal/graphview"
)

// seen returns a line as a terminal with support for text directions shows it.
func seen(t *testing.T, line string) string {
	t.Helper()
	var p bidi.Paragraph
	if _, err := p.SetString(line, bidi.DefaultDirection(bidi.LeftToRight)); err != nil {
		t.Fatal(err)
	}
	order, err := p.Order()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i := range order.NumRuns() {
		run := order.Run(i)
		text := run.String()
		if run.Direction() == bidi.RightToLeft {
			text = bidi.ReverseString(text)
		}
		b.WriteString(text)
	}
	return strings.NewReplacer("\u2068", "", "\u2069", "").Replace(b.String())
}

func TestIsolate_KeepsWhatStandsBesideInOrder(t *testing.T) {
	t.Parallel()
	const want = "1 םולש  20  בא"
	if seen(t, "1 שלום  20  אב") == want {
		t.Error("the order stays without marks: this test shows nothing")
	}
	if got := seen(t, "1 "+graphview.Isolate("שלום")+"  20  "+graphview.Isolate("אב")); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := graphview.Isolate("plain 東京"); got != "plain 東京" {
		t.Errorf("what needs no marks became %q", got)
	}
}

func TestFirst_FitsAndKeepsCharactersWhole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, want string
		columns    int
	}{
		{"abc", "ab", 2},
		{"abc", "abc", 9},
		{"abc", "", 0},
		{"日本", "日", 3},
		{"e\u0301e\u0301", "e\u0301", 1},
		{"👩‍🚀x", "", 1},
		{"👩‍🚀x", "👩‍🚀", 2},
		{"\u2068אב\u2069", "\u2068א", 1},
		{"\u2068אב\u2069", "\u2068אב\u2069", 2},
	} {
		if got := graphview.First(c.text, c.columns); got != c.want {
			t.Errorf("the first %d columns of %q are %q, want %q", c.columns, c.text, got, c.want)
		}
	}
}

func TestLast_FitsAndKeepsCharactersWhole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, want string
		columns    int
	}{
		{"abc", "bc", 2},
		{"abc", "abc", 9},
		{"abc", "", 0},
		{"日本", "本", 3},
		{"e\u0301e\u0301", "e\u0301", 1},
		{"x👩‍🚀", "", 1},
		{"x👩‍🚀", "👩‍🚀", 2},
	} {
		if got := graphview.Last(c.text, c.columns); got != c.want {
			t.Errorf("the last %d columns of %q are %q, want %q", c.columns, c.text, got, c.want)
		}
	}
}
