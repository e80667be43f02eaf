package dagspec

import (
	"fmt"
	"strings"
	"testing"
)

// These inputs would keep the YAML parser busy for minutes, or overflow its stack: the parser must not get them.
func TestParse_StopsWhatAParserWouldDrownIn(t *testing.T) {
	t.Parallel()
	const size = MaxBytes / 8
	for text, want := range map[string]string{
		strings.Repeat("[", size/2):               "levels deep",
		strings.Repeat("{a: ", size/8):            "levels deep",
		strings.Repeat("- ", size/8):              "levels deep",
		strings.Repeat("? ", size/8):              "levels deep",
		"a: " + strings.Repeat("!!str ", size/12): "levels deep",
		strings.Repeat("a: b\n", size/5):          "keys in one map",
		strings.Repeat("a:\n- b\n", size/7):       "keys in one map",
		`{"name": ` + strings.Repeat("[", size/2): "levels deep",
	} {
		if _, err := Parse("x.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q…: %.200v, want %q", text, err, want)
		}
	}
}

func TestParse_TakesWhatIsWithinTheLimits(t *testing.T) {
	t.Parallel()
	var labels, steps, aliases strings.Builder
	for i := range MaxKeys {
		fmt.Fprintf(&labels, "  k%d: v\n", i)
	}
	for i := range MaxAliases {
		fmt.Fprintf(&aliases, "  k%d: *a\n", i)
	}
	for i := range 2000 {
		fmt.Fprintf(&steps, "  - id: s%d\n    run: echo\n    depends: [%s]\n", i, strings.Repeat(fmt.Sprintf("s%d", i-1), min(i, 1)))
	}
	one := "steps: [{id: a, run: echo}]\n"
	deep := "steps: [{id: a, action: fn, with: {x: " + strings.Repeat("[", 96) + strings.Repeat("]", 96) + "}}]\n"
	for what, text := range map[string]string{
		"keys": "labels:\n" + labels.String() + one, "steps": "steps:\n" + steps.String(), "depth": deep,
		"aliases": "description: &a x\nlabels:\n" + aliases.String() + one,
	} {
		if _, err := Parse("x.yaml", []byte("name: x\n"+text)); err != nil {
			t.Errorf("%s: %.300v", what, err)
		}
	}
}

func TestParseJSON_TakesLargeGraphs(t *testing.T) {
	t.Parallel()
	const steps = 10_000
	var b strings.Builder
	b.WriteString(`{"name":"x","steps":[{"id":"s0","run":"x"}`)
	for i := 1; i < steps; i++ {
		fmt.Fprintf(&b, `,{"id":"s%d","run":"x","depends":["s%d"]}`, i, i-1)
	}
	spec, err := ParseJSON([]byte(b.String() + "]}"))
	if err != nil {
		t.Fatalf("%.300v", err)
	}
	if g, err := spec.Graph(); err != nil || g.Len() != steps {
		t.Error(err)
	}
}

func TestErrors_ShowLongAndWideLines(t *testing.T) {
	t.Parallel()
	for _, before := range []int{0, 10, 200, 5000} {
		line := "x: [" + strings.Repeat("日", before) + "!" + strings.Repeat("ж", 300) + "]"
		at := 4 + before
		source, caret := window(line, strings.Index(line, "!"))
		if runes := []rune(source); len(runes) > sourceWidth+2 || runes[caret] != '!' {
			t.Errorf("column %d: caret %d in %q", at, caret, source)
		}
		if cut := strings.HasPrefix(source, missing); cut != (before > sourceWidth/2) || !strings.HasSuffix(source, missing) {
			t.Errorf("column %d: what is missing is not marked in %q", at, source)
		}
	}
}

// The caret stands below its column: a wide character takes two, a mark on another none, and a tab is a tab.
func TestErrors_CaretIsBelowItsPlace(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"abc: !":          "     ^",
		"\tabc: !":        "\t     ^",
		"日本: !":           "      ^",
		"e\u0301: !":      "   ^",
		"\u2068אב\u2069!": "  ^",
	} {
		shown := Error{Line: 3, Source: source, Caret: len([]rune(source)) - 1, Msg: "no"}.Error()
		if got := strings.Split(shown, "\n"); len(got) != 3 || got[2] != "    | "+want {
			t.Errorf("under %q stands %q, want %q", source, got[2:], want)
		}
	}
}
