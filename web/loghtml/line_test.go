package loghtml_test

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/oarlock-dev/oarlock/web/loghtml"
)

func TestLine_ShowsWhatATerminalWould(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, line, want string }{
		{"plain", `a <b> & "c"`, `a &lt;b&gt; &amp; &#34;c&#34;`},
		{"colour", "\x1b[31mERROR\x1b[0m: no", `<span class="a31">ERROR</span>: no`},
		{"bold and bright", "\x1b[1;91mx", `<span class="a1 a91">x</span>`},
		{"half undone", "\x1b[1;31mx\x1b[22my\x1b[39mz", `<span class="a1 a31">x</span><span class="a31">y</span>z`},
		{"ground", "\x1b[41mx\x1b[49my", `<span class="b31">x</span>y`},
		{"reversed", "\x1b[7;32mx\x1b[27my", `<span class="b32">x</span><span class="a32">y</span>`},
		{"reversed without colours", "\x1b[7mx", `<span class="rv">x</span>`},
		{"256", "\x1b[38;5;196mx\x1b[38;5;9;4my", `<span class="a31">x</span><span class="a4 a91">y</span>`},
		{"true colour", "\x1b[48;2;0;200;0;1mx", `<span class="a1 b32">x</span>`},
		{"with colons", "\x1b[38:5:4mx", `<span class="a34">x</span>`},
		{"progress", "10%\r50%\r100%\r", "100%"},
		{"moves and titles", "\x1b[2K\x1b[1Ga\x1b]0;title\x07b\x1b]8;;http://x\x1b\\c", "abc"},
		{"private modes", "\x1b[?25la\x1b[>4;1mb", "ab"},
		{"unfinished", "a\x1b[31", "a"},
		{"link", "see https://example.org/a?b=1&c=2.", `see <a href="https://example.org/a?b=1&amp;c=2" rel="noopener noreferrer nofollow">https://example.org/a?b=1&amp;c=2</a>.`},
		{"coloured link", "\x1b[34mhttp://x.org/\x1b[1my", `<a href="http://x.org/y" rel="noopener noreferrer nofollow"><span class="a34">http://x.org/</span><span class="a1 a34">y</span></a>`},
		{"no link", "javascript:alert(1) //x", "javascript:alert(1) //x"},
		{"turned around", "a\u202eb\u2066c", "a\ufffdb\ufffdc"},
		{"bytes", "a\xff\x00\tb", "a\ufffd\ufffd\tb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := string(loghtml.Line([]byte(c.line), nil)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestLine_MarksWhatWasFound(t *testing.T) {
	t.Parallel()
	got := string(loghtml.Line([]byte("a \x1b[31mnote\x1b[0mbook <notebook>"), regexp.MustCompile("notebook")))
	want := `a <mark><span class="a31">note</span></mark><mark>book</mark> &lt;<mark>notebook</mark>&gt;`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string(loghtml.Line([]byte("abc"), regexp.MustCompile("x*"))); got != "abc" {
		t.Errorf("nothing was marked: %s", got)
	}
}

// Whatever a task writes, the HTML is whole, and its text is Text.
func TestLine_IsWholeForAnyBytes(t *testing.T) {
	t.Parallel()
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"\x1b[", "\x1b]8;;", "\x1b\\", "\a", "31m", "0m", "38;5;", ";", "<script>alert(1)</script>", "\"'`>", "https://x.org/", "\r", "\u202e", "é", "&amp;"}),
		rapid.StringN(0, 8, -1),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 8), func(b []byte) string { return string(b) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		line := []byte(strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "line"), ""))
		html := string(loghtml.Line(line, regexp.MustCompile("a|x|<")))
		d := xml.NewDecoder(strings.NewReader("<p>" + html + "</p>"))
		var text strings.Builder
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v: %q", err, html)
			}
			switch token := token.(type) {
			case xml.CharData:
				text.Write(token)
			case xml.StartElement:
				if !slices.Contains([]string{"p", "a", "span", "mark"}, token.Name.Local) {
					t.Fatalf("an element %s: %q", token.Name.Local, html)
				}
			}
		}
		if want := loghtml.Text(line); text.String() != want || !utf8.ValidString(want) {
			t.Fatalf("the text of the HTML is %q, not %q", text.String(), want)
		}
	})
}
