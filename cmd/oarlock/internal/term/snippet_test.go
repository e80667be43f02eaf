package term

import (
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/internal/graphview"
	"github.com/oarlock-dev/oarlock/internal/runview"
)

// The caret is below its character, and no line is wider than the terminal, for any text and any width.
func TestSnippet_PutsTheCaretBelowItsCharacter(t *testing.T) {
	t.Parallel()
	lines := map[string]string{
		"short":      "depends: [!lod]",
		"first":      "!",
		"long":       strings.Repeat("word ", 1000) + "!" + strings.Repeat(" more", 1000),
		"at its end": strings.Repeat("x", 5000) + "!",
		"at front":   "!" + strings.Repeat("x", 5000),
		"tabs":       "\t\ta:\t" + strings.Repeat("\tb", 40) + "!\tc",
		"wide":       strings.Repeat("日本語", 60) + "!" + strings.Repeat("漢字", 60),
		"marks":      strings.Repeat("e\u0301", 200) + "!" + strings.Repeat("o\u0308", 200),
		"joined":     strings.Repeat("👩‍🚀", 50) + "!" + strings.Repeat("🇫🇷", 50),
		"commands":   strings.Repeat("\x1b[31m", 30) + "!" + strings.Repeat("\u202e", 30),
	}
	for name, line := range lines {
		prefix, _, _ := strings.Cut(line, "!")
		caret := len([]rune(prefix))
		for _, columns := range []int{0, 40, 41, 80, 200} {
			got := strings.Split(Painter(false).Snippet(7, line, caret, columns), "\n")
			if len(got) != 2 || !strings.HasPrefix(got[0], "  7 | ") || !strings.HasPrefix(got[1], "    | ") || !strings.HasSuffix(got[1], "^") {
				t.Fatalf("%s, %d columns: %q", name, columns, got)
			}
			before, _, found := strings.Cut(got[0], "!")
			if at := graphview.Columns(got[1]) - 1; !found || graphview.Columns(before) != at {
				t.Errorf("%s, %d columns: the caret is in column %d\n%s", name, columns, at, strings.Join(got, "\n"))
			}
			if columns > 0 && graphview.Columns(got[0]) > columns {
				t.Errorf("%s: %d columns in %d: %s", name, graphview.Columns(got[0]), columns, got[0])
			}
			if columns > 0 && graphview.Columns(runview.Printable(line)) > columns && !strings.Contains(got[0], "…") {
				t.Errorf("%s, %d columns: what is missing is not marked: %s", name, columns, got[0])
			}
		}
	}
}

func TestSnippet_BehindTheEndAndOfNothing(t *testing.T) {
	t.Parallel()
	if got, want := Painter(false).Snippet(3, "abc", 9, 40), "  3 | abc\n    |    ^"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	end := strings.Split(Painter(false).Snippet(3, strings.Repeat("x", 99), 99, 40), "\n")
	if graphview.Columns(end[0]) >= 40 || graphview.Columns(end[1]) != graphview.Columns(end[0])+1 {
		t.Errorf("a caret behind a long line:\n%s", strings.Join(end, "\n"))
	}
	for _, got := range []string{Painter(false).Snippet(0, "abc", 1, 40), Painter(false).Snippet(3, " ", 1, 40)} {
		if got != "" {
			t.Errorf("nothing to show is shown as %q", got)
		}
	}
}
