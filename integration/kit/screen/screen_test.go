package screen

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/kit/golden"
)

func TestScreen_ShowsWhatIsSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sent, want string }{
		"lines":                    {"a\r\n b \r\n\r\nc", "a\n b\n\nc\n"},
		"over a line":              {"abc\rx", "xbc\n"},
		"the rest of a line":       {"abc\rx\x1b[K", "x\n"},
		"up, and what is below":    {"a\r\nb\r\nc\r\n\x1b[2A\rB\x1b[K\r\n\x1b[J", "a\nB\n"},
		"up no further":            {"1\r\n2\r\n3\r\n4\r\n5\r\n\x1b[9A\rx", "x\n4\n5\n"},
		"what is long wraps":       {"0123456789ab", "0123456789\nab\n"},
		"a full line stays":        {"0123456789\r\nx", "0123456789\nx\n"},
		"on a full line":           {"0123456789\x1b[K\r\nx", "012345678\nx\n"},
		"wide characters":          {"日本\rab", "ab本\n"},
		"a wide one wraps whole":   {"012345678日", "012345678\n日\n"},
		"marks take no place":      {"e\u0301x\rab", "ab\n"},
		"families are one":         {"👨‍👩‍👧x\rab", "abx\n"},
		"flags":                    {"🇫🇷x\rab", "abx\n"},
		"the whole screen":         {"1\r\n2\x1b[H\x1b[2Jx", "x\n"},
		"home and the cursor":      {"12\x1b[?25l\x1b[Hx\x1b[?25h", "x2\n"},
		"colours are not text":     {"\x1b[1;31ma\x1b[0mb", "ab\n"},
		"isolates take no place":   {"\u2068א\u2069x\rab", "ab\n"},
		"a mark alone is not seen": {"\u0301x", "x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole, pieces := New(10, 4), New(10, 4)
			mustWrite(t, whole, c.sent)
			for i := range len(c.sent) {
				mustWrite(t, pieces, c.sent[i:i+1])
			}
			for _, s := range []*Screen{whole, pieces} {
				if got := s.String(); got != c.want {
					t.Errorf("%q shows %q, want %q", c.sent, got, c.want)
				}
			}
		})
	}
}

func TestScreen_RefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, sent := range []string{"\x1b[38m", "\x1b[3C", "\x1b[5J", "\a", "\t", "\x1b]0;title" + strings.Repeat("x", maxSequence), "\x1b[xA"} {
		if _, err := New(10, 4).Write([]byte(sent)); err == nil {
			t.Errorf("%q is known", sent)
		}
	}
}

func TestScreen_FoldsWhatNoLongerFits(t *testing.T) {
	t.Parallel()
	s := New(10, 6)
	mustWrite(t, s, "0123456789\r\nab\r\n")
	s.Resize(4, 6)
	mustWrite(t, s, "\x1b[1A\rxy")
	if got, want := s.String(), "0123\n4567\n89\nxy\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSVG_DrawsTheGoldenFiles(t *testing.T) {
	t.Parallel()
	s := New(30, 8)
	mustWrite(t, s, "$ oarlock <run> & \"more\"\r\n  \x1b[33m▸\x1b[0m 日本 👨‍👩‍👧  \x1b[2mrunning\x1b[0m\r\n")
	first := s.Frame()
	first.Stood = 400 * time.Millisecond
	mustWrite(t, s, "\x1b[1A\r  \x1b[32m✓\x1b[0m 日本 👨‍👩‍👧  \x1b[1;32mdone\x1b[0m\x1b[K\r\n")
	last := s.Frame()
	last.Stood = 1600 * time.Millisecond
	for name, frames := range map[string][]Frame{"film": {first, last}, "still": {last}} {
		svg := SVG(name+" <&>", frames...)
		golden.Equal(t, filepath.Join("testdata", name+".svg"), svg)
		shown, err := Text(svg)
		if err != nil || shown != last.String() {
			t.Errorf("the picture ends with %q, %v; want %q", shown, err, last)
		}
	}
}

func TestStart_ShowsAProgramOnATerminal(t *testing.T) {
	t.Parallel()
	r, err := Start(exec.Command("sh", "-c", `stty size; read word; printf 'got %s\nand more' "$word"; exit 3`), 40, 5, "$ sh\r\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Type("this\n"); err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(); err == nil || err.Error() != "exit status 3" {
		t.Errorf("it ended with %v", err)
	}
	last := r.Frames[len(r.Frames)-1].String()
	for _, want := range []string{"$ sh\n", "5 40\n", "got this\nand more\n"} {
		if !strings.Contains(last, want) {
			t.Errorf("the last frame lacks %q:\n%s", want, last)
		}
	}
}

func mustWrite(t *testing.T, s *Screen, text string) {
	t.Helper()
	if _, err := fmt.Fprint(s, text); err != nil {
		t.Fatal(err)
	}
}
