package logship

import (
	"bytes"
	"strings"
)

// lastLineBytes bounds what is kept of a line: it is shown beside the task it ended.
const lastLineBytes = 500

// lastLine remembers the last line with anything on it.
type lastLine struct {
	line    []byte // the last that was ended, without what is beyond its bound
	current []byte
}

func (l *lastLine) write(p []byte) {
	// Only the last few lines can matter; a flood must not be looked at byte by byte.
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

// text is the line, fit for a text column.
func (l *lastLine) text() string {
	line := l.line
	if len(bytes.TrimSpace(l.current)) > 0 {
		line = l.current
	}
	text := strings.ToValidUTF8(string(line), "\uFFFD")
	return strings.TrimSpace(strings.ReplaceAll(text, "\x00", ""))
}
