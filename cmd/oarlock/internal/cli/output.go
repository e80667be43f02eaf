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

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
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

// print writes text to standard output, and returns an error if it cannot: a full disk must not look like success.
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

// fitted cuts each line of a table to the terminal's width, so that a long last column does not fold. If standard output is no
// terminal, or its width is unknown, it returns text unchanged.
func (e *env) fitted(text string) string {
	if !e.StdoutTTY || e.Columns <= 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(term.Cut(strings.TrimSuffix(line, "\n"), e.Columns) + "\n")
	}
	return b.String()
}

// painter adds to term.Painter how commands show runs, DAGs, queues and workers.
type painter struct{ term.Painter }

func newPainter(colours bool) painter { return painter{term.Painter(colours)} }

func (e *env) stdoutPaint() painter { return newPainter(e.StdoutTTY && !e.plain()) }

func (e *env) stderrPaint() painter {
	if e.settings == nil { // the settings could not be read
		_, noColor := e.variable("NO_COLOR")
		return newPainter(e.StderrTTY && !noColor)
	}
	return newPainter(e.StderrTTY && !e.plain())
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

var errDeclined = errors.New("not confirmed: nothing was changed")

// confirm asks the user whether to go on; only "y" and "yes" agree. It returns nil for these, errDeclined for any other answer, and
// the cause if ctx ends first. The caller must have checked that there is a terminal.
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
