package loghtml

import (
	"bytes"
	"html/template"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi/parser"
)

// address matches URLs. Punctuation at the end of a URL belongs to the sentence around it.
var address = regexp.MustCompile(`https?://[^\s<>"'` + "`" + `]*[^\s<>"'` + "`" + `.,;:!?)\]}]`)

// Line returns the HTML of a line, which has no line end. It marks the matches of find in the text that is shown; nil: it marks
// none.
func Line(line []byte, find *regexp.Regexp) template.HTML {
	t := parse(lastState(line))
	links := address.FindAllStringIndex(t.text, -1)
	var marks [][]int
	if find != nil {
		marks = slices.DeleteFunc(find.FindAllStringIndex(t.text, -1), func(m []int) bool { return m[0] == m[1] })
	}
	var b strings.Builder
	for at := 0; at < len(t.text); {
		link, to := spanAt(links, at, len(t.text))
		if link {
			b.WriteString(`<a href="` + template.HTMLEscapeString(t.text[at:to]) + `" rel="noopener noreferrer nofollow">`)
		}
		t.write(&b, at, to, marks)
		if link {
			b.WriteString("</a>")
		}
		at = to
	}
	return template.HTML(b.String()) //nolint:gosec // all text in it was escaped
}

// Text returns a line as plain text: the text that Line shows, without colours.
func Text(line []byte) string { return parse(lastState(line)).text }

// lastState returns the part of a line after its last carriage return, without those at the end. A terminal shows no more of a line
// that was overwritten, as progress bars do.
func lastState(line []byte) []byte {
	line = bytes.TrimRight(line, "\r")
	return line[bytes.LastIndexByte(line, '\r')+1:]
}

// spanAt reports whether the position at is in one of the spans, which are sorted and do not overlap. It returns the position where
// that changes, or end if it does not change any more.
func spanAt(spans [][]int, at, end int) (in bool, to int) {
	for _, s := range spans {
		switch {
		case at < s[0]:
			return false, s[0]
		case at < s[1]:
			return true, s[1]
		}
	}
	return false, end
}

// styledText is text with the styles of its parts.
type styledText struct {
	text string
	runs []styleRun
}

// styleRun is a style that holds from a position up to the next run.
type styleRun struct {
	from  int
	style style
}

// write writes the text between two positions as HTML, with elements for styles and for marks.
func (t *styledText) write(b *strings.Builder, from, to int, marks [][]int) {
	for at := from; at < to; {
		marked, end := spanAt(marks, at, to)
		classes, next := t.styleAt(at)
		end = min(end, next, to)
		if marked {
			b.WriteString("<mark>")
		}
		if classes != "" {
			b.WriteString(`<span class="` + classes + `">`)
		}
		template.HTMLEscape(b, []byte(t.text[at:end]))
		if classes != "" {
			b.WriteString("</span>")
		}
		if marked {
			b.WriteString("</mark>")
		}
		at = end
	}
}

// styleAt returns the classes at a position, and the position where the next style begins.
func (t *styledText) styleAt(at int) (classes string, next int) {
	next = len(t.text)
	for _, run := range slices.Backward(t.runs) {
		if run.from <= at {
			return run.style.classes(), next
		}
		next = run.from
	}
	return "", next
}

// parse splits a line into text and styles. It drops sequences that set no style, and those that do not end. It replaces characters
// that must not reach a page, as shown does.
func parse(line []byte) styledText {
	var text strings.Builder
	var t styledText
	var now style
	for state, sequence := parser.GroundState, []byte(nil); len(line) > 0; {
		if state == parser.GroundState && line[0] != '\x1b' {
			r, size := utf8.DecodeRune(line)
			text.WriteRune(shown(r))
			line = line[size:]
			continue
		}
		next, action := parser.Table.Transition(state, line[0])
		switch {
		case action == parser.ClearAction:
			sequence = sequence[:0]
		case action == parser.ParamAction:
			sequence = append(sequence, line[0])
		case action == parser.PrefixAction || action == parser.CollectAction:
			sequence = append(sequence, '?') // a private sequence sets no style
		case action == parser.DispatchAction && line[0] == 'm' && isControlSequence(state):
			now.set(string(sequence))
			t.runs = append(t.runs, styleRun{text.Len(), now})
		}
		state, line = next, line[1:]
	}
	t.text = text.String()
	return t
}

func isControlSequence(state parser.State) bool {
	return state == parser.CsiEntryState || state == parser.CsiParamState
}

// shown returns a character, or U+FFFD for one that must not reach a page: control characters other than tab, characters that
// change the direction of text, and noncharacters.
func shown(r rune) rune {
	turns := r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
	if r != '\t' && unicode.IsControl(r) || turns || r&0xfffe == 0xfffe {
		return utf8.RuneError
	}
	return r
}
