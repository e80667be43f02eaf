package logship

import (
	"bytes"
	"strings"
)

// lastLineBytes is how much of the last line is kept. The line is shown beside the task that it ended.
const lastLineBytes = 500

// lastLine remembers the last line that is not blank.
type lastLine struct {
	line    []byte // the last complete line, cut at lastLineBytes
	current []byte
}

func (l *lastLine) write(p []byte) {
	// Each line is copied as a whole up to its bound, because a flood of output must not be examined byte by byte.
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		l.current = append(l.current, line[:min(len(line), max(0, lastLineBytes-len(l.current)))]...)
		if ended {
			if len(bytes.TrimSpace(l.current)) > 0 {
				l.line = append(l.line[:0], l.current...)
			}
			l.current = l.current[:0]
		}
		p = rest
	}
}

// text returns the last line that is not blank, complete or not, in a form that a text column can hold; "": there is none.
func (l *lastLine) text() string {
	line := l.line
	if len(bytes.TrimSpace(l.current)) > 0 {
		line = l.current
	}
	text := strings.ToValidUTF8(string(line), "\uFFFD")
	return strings.TrimSpace(strings.ReplaceAll(text, "\x00", ""))
}
