package runview

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestSpan_IsAsExactAsPeopleCare(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0ms": -time.Second, "40ms": 40*time.Millisecond + 999, "3.2s": 3290 * time.Millisecond, "41s": 41900 * time.Millisecond,
		"1m05s": 65 * time.Second, "2h07m": 2*time.Hour + 7*time.Minute + 59*time.Second, "3d04h": 76*time.Hour + time.Minute,
	} {
		if got := Span(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}

func TestPrintable_IsOneLineWithoutCommands(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\tb\r\nc": "a b  c", "\x1b[2J": "\uFFFD[2J", "\xff": "\uFFFD", "\u202ex": "\uFFFDx", "\u009b1m": "\uFFFD1m", "übel ✓": "übel ✓",
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

func TestParamText_IsForPeople(t *testing.T) {
	t.Parallel()
	long := `"` + "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" + `"`
	for params, want := range map[string]string{
		`{"b": 1, "a": "x"}`:          "a=x b=1",
		`{"a": "two words"}`:          `a="two words"`,
		`{"a": ""}`:                   `a=""`,
		`{"a": {"k": [1, null]}}`:     `a={"k": [1, null]}`,
		`{"a": ` + long + `}`:         "a=" + long[1:paramRunesMax+1] + "…",
		`[1]`:                         "[1]",
		`{"a": true, "b": "a=\"b\""}`: `a=true b="a=\"b\""`,
	} {
		if got := ParamText(json.RawMessage(params)); got != want {
			t.Errorf("%s is shown as %s, want %s", params, got, want)
		}
	}
}

func TestLastLines_AreTheLastThatSaySomething(t *testing.T) {
	t.Parallel()
	got := LastLines("1\n2\n\n3\r\n4\n  \n5\n\x1b[31m6\x1b[0m\n\n")
	if want := "2|3|4|5|\uFFFD[31m6\uFFFD[0m"; strings.Join(got, "|") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if lines := LastLines(" \n\n"); len(lines) != 0 {
		t.Errorf("nothing has the lines %q", lines)
	}
}

func TestShellWord_SurvivesAShell(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"load": "load", "load~1": "load~1", "a/b.png": "a/b.png", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "~x": "'~x'",
	} {
		if got := ShellWord(word); got != want {
			t.Errorf("%q became %q, want %q", word, got, want)
		}
	}
}
