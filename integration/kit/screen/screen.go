package screen

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/oarlock-dev/oarlock/internal/graphview"
)

// Style is how a cell looks.
type Style struct {
	Bold, Dim bool
	Colour    int // SGR: 30 to 37, 90 to 97; 0: the colour of the terminal
}

// cell is one place of a terminal: a character with its marks. A wide character is followed by a cell without text.
type cell struct {
	text  string
	style Style
}

// Screen is a terminal with a fixed size. Lines that have scrolled away are kept.
type Screen struct {
	columns, rows int

	lines  [][]cell
	row    int // of the cursor, in lines
	column int // of the cursor; columns: behind the last column, where the next character wraps
	style  Style
	rest   []byte // a sequence or a character without its end, which is still to come
	hidden bool   // the cursor is hidden
}

// New returns an empty screen.
func New(columns, rows int) *Screen {
	return &Screen{columns: columns, rows: rows, lines: make([][]cell, 1)}
}

// Write shows what a program sends. An unknown control sequence is an error.
func (s *Screen) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	for len(s.rest) > 0 {
		n, err := s.take(s.rest)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			break
		}
		s.rest = s.rest[n:]
	}
	return len(p), nil
}

var controlSequence = regexp.MustCompile(`^\x1b\[(\??[0-9;]*)([A-Za-z])`)

const maxSequence = 32 // bytes, for the sequences that our programs send

// take shows the first element of text and returns its length, or 0 when the end of the element is missing.
func (s *Screen) take(text []byte) (int, error) {
	switch text[0] {
	case '\n':
		s.down()
		return 1, nil
	case '\r':
		s.column = 0
		return 1, nil
	case '\x1b':
		m := controlSequence.FindSubmatch(text)
		if m == nil && len(text) < maxSequence {
			return 0, nil
		}
		if m == nil {
			return 0, fmt.Errorf("a sequence without an end: %q", text)
		}
		return len(m[0]), s.obey(string(m[1]), m[2][0])
	}
	if text[0] < ' ' || text[0] == 0x7f {
		return 0, fmt.Errorf("a control character: %q", text[0])
	}
	if !utf8.FullRune(text) {
		return 0, nil
	}
	r, n := utf8.DecodeRune(text)
	s.put(r)
	return n, nil
}

func (s *Screen) down() {
	if s.row++; s.row == len(s.lines) {
		s.lines = append(s.lines, nil)
	}
}

// top returns the index of the first visible line.
func (s *Screen) top() int { return max(0, len(s.lines)-s.rows) }

func (s *Screen) obey(parameters string, verb byte) error {
	switch sequence := parameters + string(verb); {
	case verb == 'm':
		return s.paint(parameters)
	case verb == 'A':
		n, err := strconv.Atoi(parameters)
		if err != nil {
			return fmt.Errorf("up %q lines", parameters)
		}
		s.row = max(s.top(), s.row-n)
	case sequence == "K":
		s.erase()
	case sequence == "J":
		s.erase()
		s.lines = s.lines[:s.row+1]
	case sequence == "2J":
		clear(s.lines[s.top():])
	case sequence == "H":
		s.row, s.column = s.top(), 0
	case sequence == "?25l", sequence == "?25h":
		s.hidden = verb == 'l'
	default:
		return fmt.Errorf("an unknown sequence: %q", "\x1b["+sequence)
	}
	return nil
}

// erase clears the line from the cursor on. In a full line the cursor stands on the last character.
func (s *Screen) erase() {
	at := min(s.column, s.columns-1)
	s.lines[s.row] = s.lines[s.row][:min(at, len(s.lines[s.row]))]
}

func (s *Screen) paint(parameters string) error {
	for code := range strings.SplitSeq(parameters, ";") {
		n, err := strconv.Atoi(code)
		if code != "" && err != nil {
			return err
		}
		switch {
		case n == 0:
			s.style = Style{}
		case n == 1:
			s.style.Bold = true
		case n == 2:
			s.style.Dim = true
		case n >= 30 && n <= 37, n >= 90 && n <= 97:
			s.style.Colour = n
		default:
			return fmt.Errorf("an unknown colour: %q", parameters)
		}
	}
	return nil
}

func (s *Screen) put(r rune) {
	if s.join(r) {
		return
	}
	width := graphview.Columns(string(r))
	if s.column+width > s.columns {
		s.down()
		s.column = 0
	}
	line := s.lines[s.row]
	for len(line) < s.column+width {
		line = append(line, cell{text: " "})
	}
	line[s.column] = cell{string(r), s.style}
	if width == 2 {
		line[s.column+1] = cell{"", s.style}
	}
	s.lines[s.row] = line
	s.column += width
}

// join adds a mark, or a character after a joiner, to the character before it.
func (s *Screen) join(r rune) bool {
	line := s.lines[s.row]
	at := min(s.column, len(line)) - 1
	if at >= 0 && line[at].text == "" {
		at--
	}
	if at < 0 {
		return graphview.Columns(string(r)) == 0
	}
	alone, before, joined := graphview.Columns(string(r)), graphview.Columns(line[at].text), graphview.Columns(line[at].text+string(r))
	if joined == before+alone && alone > 0 {
		return false
	}
	line[at].text += string(r)
	if joined > before && at+1 == len(line) {
		s.lines[s.row] = append(line, cell{"", line[at].style})
		s.column++
	}
	return true
}

// Lines returns all lines since the screen was made, without blanks at their ends.
func (s *Screen) Lines() []string {
	lines := make([]string, len(s.lines))
	for i, line := range s.lines {
		var b strings.Builder
		for _, c := range line {
			b.WriteString(c.text)
		}
		lines[i] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// String returns the visible text, without empty lines at the end.
func (s *Screen) String() string {
	return strings.TrimRight(strings.Join(s.Lines()[s.top():], "\n"), "\n") + "\n"
}

// Frame returns the visible content.
func (s *Screen) Frame() Frame {
	f := Frame{columns: s.columns, rows: s.rows}
	for _, line := range s.lines[s.top():] {
		f.lines = append(f.lines, slices.Clone(line))
	}
	return f
}

// Resize changes the size of the screen, like terminals that fold lines which no longer fit.
func (s *Screen) Resize(columns, rows int) {
	var lines [][]cell
	row := 0
	for i, line := range s.lines {
		if i == s.row {
			row = len(lines)
		}
		for len(line) > columns {
			lines = append(lines, line[:columns:columns])
			line = line[columns:]
		}
		lines = append(lines, line)
	}
	s.lines, s.row, s.columns, s.rows = lines, row, columns, rows
}
