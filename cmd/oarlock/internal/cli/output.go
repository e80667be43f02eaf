package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

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
		if a.lines == nil {
			return e.print(runview.CompactJSON(a.object) + "\n")
		}
		lines := make([]string, len(a.lines))
		for i, v := range a.lines {
			lines[i] = runview.CompactJSON(v)
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
