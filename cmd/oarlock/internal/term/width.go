package term

import (
	"strings"

	"github.com/oarlock-dev/oarlock/internal/graphview"
)

// Width returns how many columns a cell takes on a terminal: colours take none, wide characters two.
func Width(cell string) int {
	n := 0
	for rest := cell; rest != ""; {
		text, code, found := strings.Cut(rest, "\x1b[")
		n += graphview.Columns(text)
		if !found {
			break
		}
		_, rest, _ = strings.Cut(code, "m")
	}
	return n
}

// Cut returns the line unchanged if it takes at most columns columns. Otherwise it returns the beginning that fits beside "…", and
// "…". Colours take no columns; if the part that is left has any, they are reset before the "…".
func Cut(line string, columns int) string {
	if Width(line) <= columns {
		return line
	}
	var b strings.Builder
	seen, painted := 0, false
	for rest := line; rest != ""; {
		if code := sgrAt(rest); code != "" {
			b.WriteString(code)
			painted, rest = true, rest[len(code):]
			continue
		}
		text, _, _ := strings.Cut(rest, "\x1b[")
		fits := graphview.First(text, columns-1-seen)
		b.WriteString(fits)
		if len(fits) < len(text) {
			break
		}
		seen += graphview.Columns(text)
		rest = rest[len(text):]
	}
	if painted {
		b.WriteString("\x1b[0m")
	}
	return b.String() + "…"
}

// sgrAt returns the colour code at the beginning of text, or "" if there is none. It takes the text from ESC [ up to the next m for
// a colour code.
func sgrAt(text string) string {
	if !strings.HasPrefix(text, "\x1b[") {
		return ""
	}
	return text[:strings.IndexByte(text, 'm')+1]
}
