package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/oarlock-dev/oarlock/internal/graphview"
	"github.com/oarlock-dev/oarlock/internal/runview"
)

// answer is the result of a command, in every format.
type answer struct {
	object any      // -o json
	lines  []any    // -o jsonl; nil: the object in one line
	ids    []string // -o id; nil: the command has no ids
	text   string   // -o table
}

// say prints an answer in the format that the settings choose.
func (e *env) say(a answer) error { return e.sayAs(e.settings.Text("output"), a) }

func (e *env) sayAs(format string, a answer) error {
	switch format {
	case "json":
		text, err := json.MarshalIndent(a.object, "", "  ")
		if err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		return e.print(runview.InertJSON(string(text)) + "\n")
	case "jsonl":
		objects := a.lines
		if objects == nil {
			objects = []any{a.object}
		}
		lines := make([]string, len(objects))
		for i, v := range objects {
			var err error
			if lines[i], err = runview.EncodeJSON(v); err != nil {
				return err
			}
		}
		return e.printLines(lines)
	case "id":
		if a.ids == nil {
			return &usageError{msg: "this command has nothing to print with -o id", hint: "use -o table, json or jsonl"}
		}
		return e.printLines(a.ids)
	}
	return e.print(a.text)
}

// print writes data, and returns an error if it cannot: a full disk must not look like success.
func (e *env) print(text string) error {
	if _, err := io.WriteString(e.Stdout, text); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

func (e *env) printLines(lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	return e.print(strings.Join(lines, "\n") + "\n")
}

// table aligns its columns. Its cells may have colours.
type table struct {
	head []string
	rows [][]string
}

const columnGap = 2

func (t table) String() string { return alignRows(append([][]string{t.head}, t.rows...)) }

func alignRows(all [][]string) string {
	var widths []int
	for _, row := range all {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], width(cell))
		}
	}
	var b strings.Builder
	for _, row := range all {
		b.WriteString(strings.TrimRight(alignRow(row, widths), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

func alignRow(row []string, widths []int) string {
	var b strings.Builder
	for i, cell := range row {
		b.WriteString(cell)
		b.WriteString(strings.Repeat(" ", max(0, widths[i]-width(cell))+columnGap))
	}
	return b.String()
}

// width returns how many columns a cell takes on a terminal: colours take none, wide characters two.
func width(cell string) int {
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

// cut returns the first columns of a line, with a mark if something is missing. Colours do not count, and are ended.
func cut(line string, columns int) string {
	if width(line) <= columns {
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

// fitted cuts each line of a table to the terminal's width, so that a long last column does not fold.
func (e *env) fitted(text string) string {
	if !e.StdoutTTY || e.Columns <= 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(cut(strings.TrimSuffix(line, "\n"), e.Columns) + "\n")
	}
	return b.String()
}

// sgrAt returns the colour code at the beginning of text, or "".
func sgrAt(text string) string {
	if !strings.HasPrefix(text, "\x1b[") {
		return ""
	}
	return text[:strings.IndexByte(text, 'm')+1]
}

// painter adds colours to text if it is true.
type painter bool

func (e *env) stdoutPaint() painter { return painter(e.StdoutTTY && !e.plain()) }

func (e *env) stderrPaint() painter {
	if e.settings == nil { // the settings could not be read
		_, noColor := e.variable("NO_COLOR")
		return painter(e.StderrTTY && !noColor)
	}
	return painter(e.StderrTTY && !e.plain())
}

func (p painter) paint(code, s string) string {
	if !p || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p painter) good(s string) string { return p.paint("32", s) }
func (p painter) warn(s string) string { return p.paint("33", s) }
func (p painter) bad(s string) string  { return p.paint("1;31", s) }
func (p painter) note(s string) string { return p.paint("36", s) }
func (p painter) dim(s string) string  { return p.paint("2", s) }
func (p painter) bold(s string) string { return p.paint("1", s) }

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// fold breaks a line that is wider than the terminal, between words if possible. The rest is indented to the column under,
// or less if that leaves too little room. Colours continue after a break.
func fold(line string, columns, under int) string {
	if columns <= 0 || width(line) <= columns {
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

const foldIndent = 6 // columns that are left at least for the rest of a line

// wordLength returns the length of the blanks or the word at the beginning of text.
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
	case width(word) == 0:
		f.folded.WriteString(word)
		return
	case f.column+f.gap > len(f.under) && f.column+f.gap+width(word) > f.columns:
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

// write writes a word. It breaks a word that is longer than a line anywhere.
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
		f.column += width(fits)
		word = word[len(fits):]
	}
}

// stripControl makes another program's output safe to print: it takes out what controls a terminal. If colours is set, colours
// stay and end with the line. Of a line that the program overwrote, only the last state stays, as on a screen.
func stripControl(line string, colours bool) string {
	line = strings.TrimRight(line, "\r")
	line = line[strings.LastIndexByte(line, '\r')+1:]
	var b strings.Builder
	coloured := false
	for len(line) > 0 {
		if line[0] == '\x1b' {
			sequence := escape(line)
			if colours && isColour(sequence) {
				b.WriteString(sequence)
				coloured = true
			}
			line = line[len(sequence):]
			continue
		}
		r, n := utf8.DecodeRuneInString(line)
		switch {
		case r == '\t':
			b.WriteByte('\t')
		case r < ' ' || r == '\x7f': // invisible: left out
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			b.WriteRune(utf8.RuneError)
		default:
			b.WriteRune(r)
		}
		line = line[n:]
	}
	if coloured {
		b.WriteString("\x1b[0m")
	}
	return b.String()
}

// escape returns the control sequence at the beginning of a text.
func escape(text string) string {
	if len(text) == 1 {
		return text
	}
	switch text[1] {
	case '[': // up to a final byte
		for i := 2; i < len(text); i++ {
			if text[i] >= '@' && text[i] <= '~' {
				return text[:i+1]
			}
		}
		return text
	case ']', 'P', 'X', '^', '_': // a string, up to its terminator
		if end := strings.IndexAny(text[2:], "\a\x1b"); end >= 0 {
			return text[:2+end+1]
		}
		return text
	}
	_, n := utf8.DecodeRuneInString(text[1:])
	return text[:1+n]
}

func isColour(sequence string) bool {
	return strings.HasPrefix(sequence, "\x1b[") && strings.HasSuffix(sequence, "m") && strings.Trim(sequence[2:len(sequence)-1], "0123456789;:") == ""
}

const (
	tabText      = "    " // replaces a tab of a source line, so that the caret stands below the right column
	leastSnippet = 10     // columns of a source line that are shown on any terminal
)

// snippet quotes a line of a file, with a caret below the character with index caret, from 0. If the terminal is too
// narrow, it shows the part of the line around the caret. It returns "" if there is nothing to show.
func (p painter) snippet(number int, source string, caret, columns int) string {
	if number < 1 || strings.TrimSpace(source) == "" {
		return ""
	}
	gutter := fmt.Sprintf("  %d | ", number)
	runes := []rune(source)
	caret = min(max(caret, 0), len(runes))
	before, after := sourceText(runes[:caret]), sourceText(runes[caret:])
	if columns > 0 {
		before, after = around(before, after, max(leastSnippet, columns-len(gutter)))
	}
	below := strings.Repeat(" ", len(gutter)-len("| ")) + "|"
	return p.dim(gutter) + before + after + "\n" +
		p.dim(below) + " " + strings.Repeat(" ", graphview.Columns(before)) + p.bad("^")
}

func sourceText(runes []rune) string {
	return runview.Printable(strings.ReplaceAll(string(runes), "\t", tabText))
}

// around cuts the text before and after a place to so many columns: half of them for each, plus the columns that the other
// side does not need.
func around(before, after string, columns int) (string, string) {
	left, right := graphview.Columns(before), max(1, graphview.Columns(after))
	if left+right <= columns {
		return before, after
	}
	room := max(columns/2, columns-right)
	if left > room {
		before = "…" + graphview.Last(before, room-1)
	}
	if room = columns - graphview.Columns(before); right > room {
		after = graphview.First(after, room-1) + "…"
	}
	return before, after
}

var errDeclined = errors.New("not confirmed: nothing was changed")

// confirm asks the user whether to go on; only "y" and "yes" agree. The caller must have checked that there is a terminal.
func (e *env) confirm(ctx context.Context) error {
	fmt.Fprint(e.Stderr, "Go on? [y/N] ")
	answer := make(chan string, 1)
	go func() { // a read from a terminal cannot be interrupted: after Ctrl-C this goroutine ends with the process
		line, _ := bufio.NewReader(e.Stdin).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		if said := strings.ToLower(strings.TrimSpace(line)); said == "y" || said == "yes" {
			return nil
		}
		return errDeclined
	case <-ctx.Done():
		fmt.Fprintln(e.Stderr)
		return context.Cause(ctx)
	}
}
