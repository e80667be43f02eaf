package term

import (
	"strings"

	"github.com/oarlock-dev/oarlock/internal/graphview"
)

// Fold breaks a line that is wider than columns into several, between words if possible. Further lines are indented by under
// columns, or less if that leaves too little room. Colours take no columns and continue after a break. If columns is 0 or less,
// Fold returns the line unchanged.
func Fold(line string, columns, under int) string {
	if columns <= 0 || Width(line) <= columns {
		return line
	}
	if columns-under < columns/3 {
		under = foldIndent
	}
	f := folder{columns: columns, under: strings.Repeat(" ", min(under, columns/2))}
	for rest := line; rest != ""; {
		code := sgrAt(rest)
		if code != "" {
			f.word.WriteString(code)
			rest = rest[len(code):]
			continue
		}
		n := wordLength(rest)
		f.add(rest[:n])
		rest = rest[n:]
	}
	f.flush()
	return f.folded.String()
}

const foldIndent = 6 // indent of further lines if the wanted one leaves them less than a third of the columns

// wordLength returns the number of bytes of the blanks at the beginning of text, or of the word there if text does not begin with a
// blank. A word ends before a blank or an escape character.
func wordLength(text string) int {
	if blanks := len(text) - len(strings.TrimLeft(text, " ")); blanks > 0 {
		return blanks
	}
	if n := strings.IndexAny(text, " \x1b"); n > 0 {
		return n
	}
	return len(text)
}

// folder writes words, and begins a new line before a word that does not fit.
type folder struct {
	columns int
	under   string

	folded strings.Builder
	column int
	gap    int             // blanks before the next word
	word   strings.Builder // the word so far, with its colours
}

func (f *folder) add(piece string) {
	if strings.HasPrefix(piece, " ") {
		f.flush()
		f.gap += len(piece)
		return
	}
	f.word.WriteString(piece)
}

func (f *folder) flush() {
	word := f.word.String()
	f.word.Reset()
	switch {
	case Width(word) == 0:
		f.folded.WriteString(word)
		return
	case f.column+f.gap > len(f.under) && f.column+f.gap+Width(word) > f.columns:
		f.begin()
	default:
		gap := min(f.gap, f.columns-f.column)
		f.folded.WriteString(strings.Repeat(" ", gap))
		f.column += gap
	}
	f.gap = 0
	f.write(word)
}

func (f *folder) begin() {
	f.folded.WriteString("\n" + f.under)
	f.column = len(f.under)
}

// write appends a word to f.folded, at the present column. It breaks a word that is longer than a line, at any character.
func (f *folder) write(word string) {
	for word != "" {
		if code := sgrAt(word); code != "" {
			f.folded.WriteString(code)
			word = word[len(code):]
			continue
		}
		text, _, _ := strings.Cut(word, "\x1b")
		fits := graphview.First(text, f.columns-f.column)
		if fits == "" {
			f.begin()
			fits = graphview.First(text, max(2, f.columns-f.column))
		}
		f.folded.WriteString(fits)
		f.column += Width(fits)
		word = word[len(fits):]
	}
}
