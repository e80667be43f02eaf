package dagspec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Error is one problem of a file. Line and Column count from 1, and are 0 for a problem without a position.
type Error struct {
	Path   string
	Line   int
	Column int // in characters
	Msg    string
	Hint   string
	Source string // the line; of a very long line the part around the column, with … at each cut
	Caret  int    // index of the column in Source, in characters, from 0
}

// Errors is the list of all problems of a file, by position.
type Errors []Error

// maxErrors limits the number of problems that are reported for one file.
const maxErrors = 1000

// sourceWidth limits the length of Error.Source, in characters.
const sourceWidth = 160

// missing marks in Error.Source where the line was cut.
const missing = "…"

// Error formats the problem with its source line, a caret and the hint.
func (e Error) Error() string {
	var b strings.Builder
	if e.Path != "" {
		b.WriteString(e.Path + ":")
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", e.Line, e.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	b.WriteString(e.Msg)
	if e.Line > 0 && strings.TrimSpace(e.Source) != "" {
		number := fmt.Sprint(e.Line)
		fmt.Fprintf(&b, "\n  %s | %s", number, e.Source)
		fmt.Fprintf(&b, "\n  %s | %s^", strings.Repeat(" ", len(number)), e.indent())
	}
	if e.Hint != "" {
		b.WriteString("\n  hint: " + e.Hint)
	}
	return b.String()
}

// indent returns the blanks in front of the caret. A tab stays a tab, so that the caret lines up at any tab width. A wide
// character takes two columns, and a combining mark none.
func (e Error) indent() string {
	var b strings.Builder
	for i, r := range []rune(e.Source) {
		if i >= e.Caret {
			break
		}
		b.WriteString(blank(r))
	}
	return b.String()
}

func blank(r rune) string {
	switch {
	case r == '\t':
		return "\t"
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return ""
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return "  "
	}
	return " "
}

// Error formats all problems, with an empty line between them.
func (es Errors) Error() string {
	texts := make([]string, len(es))
	for i, e := range es {
		texts[i] = e.Error()
	}
	return strings.Join(texts, "\n\n")
}

// Unwrap lets errors.As find a single Error.
func (es Errors) Unwrap() []error {
	list := make([]error, len(es))
	for i, e := range es {
		list[i] = e
	}
	return list
}

// report collects the problems of one file.
type report struct {
	path  string
	lines []string
	list  Errors
	more  int
}

func newReport(path string, src []byte) *report {
	return &report{path: path, lines: splitLines(src)}
}

func splitLines(src []byte) []string {
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(src), bom))
	return strings.Split(text, "\n")
}

// pos is a position in a file. The zero value is no position.
type pos struct{ line, col int }

func (r *report) add(at pos, hint, format string, args ...any) {
	if r.full() {
		r.more++
		return
	}
	r.list = append(r.list, Error{Path: r.path, Line: at.line, Column: at.col, Msg: printable(fmt.Sprintf(format, args...)), Hint: printable(hint)})
}

// full reports whether the report has its maximum of problems: further problems are only counted.
func (r *report) full() bool { return len(r.list) >= maxErrors }

// printable replaces control characters, so that text from a file cannot control the terminal that shows it.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// quote adds its source line to every error. The errors are in order, and the source is walked through only once, because a
// single line may be as long as the file.
func (r *report) quote() {
	line, col, offset := 0, 0, 0
	for i := range r.list {
		e := &r.list[i]
		if e.Line < 1 || e.Line > len(r.lines) {
			continue
		}
		if e.Line != line {
			line, col, offset = e.Line, 1, 0
		}
		text := r.lines[line-1]
		for ; col < e.Column && offset < len(text); col++ {
			_, n := utf8.DecodeRuneInString(text[offset:])
			offset += n
		}
		e.Source, e.Caret = window(text, offset)
	}
}

// window returns the part of a line to show around an offset, and the column of the offset in that part.
func window(line string, offset int) (string, int) {
	from, to := 0, len(line)
	if len(line) > utf8.UTFMax*sourceWidth || utf8.RuneCountInString(line) > sourceWidth {
		from = offset
		for n := sourceWidth / 2; n > 0 && from > 0; n-- {
			_, size := utf8.DecodeLastRuneInString(line[:from])
			from -= size
		}
		to = from
		for n := sourceWidth; n > 0 && to < len(line); n-- {
			_, size := utf8.DecodeRuneInString(line[to:])
			to += size
		}
	}
	before, after := printable(line[from:offset]), printable(line[offset:to])
	if from > 0 {
		before = missing + before
	}
	if to < len(line) {
		after += missing
	}
	return before + after, utf8.RuneCountInString(before)
}

// err returns nil, or all problems in order without duplicates.
func (r *report) err() error {
	if len(r.list) == 0 {
		return nil
	}
	slices.SortStableFunc(r.list, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Msg, b.Msg))
	})
	r.list = slices.Compact(r.list)
	r.quote()
	if r.more > 0 {
		r.list = append(r.list, Error{Path: r.path, Msg: fmt.Sprintf("and %d more problems: mend these first", r.more)})
	}
	return r.list
}

func (r *report) failed() bool { return len(r.list) > 0 }
