package term

import (
	"testing"
)

func TestTable_LinesUpPaintedCells(t *testing.T) {
	t.Parallel()
	rows := Table{Head: []string{"A", "B"}, Rows: [][]string{
		{Painter(true).Good("ok"), "1"}, {"übel", ""}, {Painter(true).Bad("fail") + Painter(true).Dim("!"), "2"},
	}}
	want := "A      B\n\x1b[32mok\x1b[0m     1\nübel\n\x1b[1;31mfail\x1b[0m\x1b[2m!\x1b[0m  2\n"
	if got := rows.String(); got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

func TestCut_LeavesColumnsAndEndsColours(t *testing.T) {
	t.Parallel()
	red := Painter(true)
	for _, c := range []struct {
		line, want string
		columns    int
	}{
		{"abc", "abc", 3},
		{"abcd", "ab…", 3},
		{"übel!", "üb…", 3},
		{red.Warn("abcd"), "\x1b[33mab\x1b[0m…", 3},
		{red.Warn("abc"), red.Warn("abc"), 3},
		{red.Warn("a") + red.Dim("bcd"), "\x1b[33ma\x1b[0m\x1b[2mb\x1b[0m…", 3},
	} {
		if got := Cut(c.line, c.columns); got != c.want {
			t.Errorf("%q in %d columns is %q, want %q", c.line, c.columns, got, c.want)
		}
	}
}

func TestFold_BreaksBetweenWords(t *testing.T) {
	t.Parallel()
	red := Painter(true)
	for _, c := range []struct {
		line    string
		columns int
		under   int
		want    string
	}{
		{"one two", 7, 2, "one two"},
		{"one two", 0, 2, "one two"},
		{"one two three", 9, 2, "one two\n  three"},
		{"a    two three", 9, 5, "a    two\n    three"},
		{"a very long list", 9, 8, "a very\n    long\n    list"}, // no column of one character
		{"0123456789ab", 10, 2, "0123456789\n  ab"},
		{"  0123456789ab", 10, 2, "  01234567\n  89ab"},
		{"日本語 日本語", 7, 2, "日本語\n  日本\n  語"},
		{"👩‍🚀👩‍🚀👩‍🚀👩‍🚀", 5, 1, "👩‍🚀👩‍🚀\n 👩‍🚀👩‍🚀"},
		{"ab " + red.Warn("cd ef") + " gh", 7, 2, "ab \x1b[33mcd\n  ef\x1b[0m gh"},
		{red.Warn("ab") + "  " + red.Warn("cdef"), 6, 2, "\x1b[33mab\x1b[0m\n  \x1b[33mcdef\x1b[0m"},
	} {
		if got := Fold(c.line, c.columns, c.under); got != c.want {
			t.Errorf("%q in %d columns is %q, want %q", c.line, c.columns, got, c.want)
		}
	}
}

func TestStripControl_LeavesWhatIsToBeSeen(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"plain übel\t1":                               "plain übel\t1",
		"10%\r50%\r100%\r":                            "100%",
		"\x1b[1;31mred\x1b[0m ok":                     "\x1b[1;31mred\x1b[0m ok\x1b[0m",
		"\x1b[2J\x1b[Hx\x1b(By":                       "xBy",
		"a\x00\x07\x7fb":                              "ab",
		"\x1b]52;c;ZXZpbA==\x1b\\x\u009bm\u202ey\xff": "\\x\ufffdm\ufffdy\ufffd",
		"\x1b": "", "\x1b[31": "", "\x1b]0;": "",
	} {
		if got := StripControl(line, true); got != want {
			t.Errorf("%q is shown as %q, want %q", line, got, want)
		}
	}
	if got := StripControl("\x1b[31mred", false); got != "red" {
		t.Errorf("without colours: %q", got)
	}
}
