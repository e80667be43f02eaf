package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/internal/pglocal"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/migrations"
)

// usageError reports an invalid command line.
type usageError struct{ msg, hint string }

func (e *usageError) Error() string { return e.msg }
func (e *usageError) Hint() string  { return e.hint }

// Texts of urfave/cli about an invalid value of a flag.
var (
	badNumber = regexp.MustCompile(`^invalid value (".*") for flag -(\S+): `)
	badSwitch = regexp.MustCompile(`^invalid boolean value (".*") for -(\S+): `)
)

// usageErrorOf rewrites an error of urfave/cli in the words that errors of settings use.
func usageErrorOf(_ *cli.Context, err error, _ bool) error {
	msg := badNumber.ReplaceAllString(err.Error(), "--$2: $1 must be a whole number\x00")
	msg = badSwitch.ReplaceAllString(msg, "--$2: $1 must be true or false\x00")
	msg, _, _ = strings.Cut(msg, "\x00")
	return &usageError{msg: msg}
}

// problem is an error as it is shown to people and scripts.
type problem struct {
	kind
	message string
	hint    string
	places  config.FileErrors // problems of the settings file, if the error is about that
	files   []jsonProblem     // problems of DAG files, if the error is about those and they were not printed yet
}

// hinter is an error with a hint: what the user should do next.
type hinter interface {
	error
	Hint() string
}

// diagnose is the only place that turns an error into a message, a hint and an exit status.
func diagnose(ctx context.Context, err error) problem {
	p := problem{kind: general, message: err.Error()}
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		p.message, p.hint = strings.ReplaceAll(p.message, server.Error(), server.Message), server.Hint
	}
	if h, ok := errors.AsType[hinter](err); ok {
		p.hint = h.Hint()
	}
	// The first function that recognises the error decides.
	_ = p.fromSignal(ctx) || p.fromCommand(err) || p.fromSettings(err) || p.fromPrivatePostgres(err) || p.fromMigrations(err) ||
		p.fromQueue(err) || p.fromDatabase(err)
	p.message = oneLine(pglink.Redact(p.message))
	return p
}

// fromSignal comes first: an interrupted command can fail with many errors, and none of them is the reason.
func (p *problem) fromSignal(ctx context.Context) bool {
	cause, ok := errors.AsType[*signalError](context.Cause(ctx))
	if !ok {
		return false
	}
	*p = problem{kind: terminated, message: cause.Error()}
	if cause.interrupt {
		p.kind = interrupted
	}
	return true
}

func (p *problem) fromCommand(err error) bool {
	if files, ok := errors.AsType[*invalidFilesError](err); ok {
		p.files = files.places()
	}
	if f, ok := errors.AsType[*failure](err); ok {
		p.kind = f.kind
		return true
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		p.kind = usage
		return true
	}
	return false
}

// privateKinds has the kinds of private server errors that are more than a general error.
var privateKinds = map[error]kind{
	pglocal.ErrBinaries:     noPostgres,
	pglocal.ErrBusy:         conflict,
	pglocal.ErrNotOurs:      conflict,
	pglocal.ErrOtherVersion: conflict,
}

// fromPrivatePostgres comes before fromDatabase: an error of the private server must not be explained as one of the user's
// database.
func (p *problem) fromPrivatePostgres(err error) bool {
	if _, ok := errors.AsType[*pglocal.MissingError](err); ok {
		p.kind = noPostgres
		return true
	}
	e, ok := errors.AsType[*pglocal.Error](err)
	if !ok {
		return false
	}
	p.hint = e.Hint()
	if k, ok := privateKinds[e.Kind]; ok {
		p.kind = k
	}
	return true
}

func (p *problem) fromSettings(err error) bool {
	if e, ok := errors.AsType[*config.InvalidError](err); ok {
		p.kind = invalid
		if e.Value.Origin.Kind == config.FromFlag {
			p.kind = usage
		}
		return true
	}
	if places, ok := errors.AsType[config.FileErrors](err); ok {
		p.kind, p.places, p.hint = invalid, places, places[0].Hint
		return true
	}
	return false
}

func (p *problem) fromMigrations(err error) bool {
	if e, ok := errors.AsType[*migrations.VersionError](err); ok {
		p.kind, p.hint = schemaVersion, versionHint(e)
		p.message, _, _ = strings.Cut(e.Error(), ": ")
		return true
	}
	if e, ok := errors.AsType[*migrations.ExcludedError](err); ok {
		p.kind, p.message = conflict, fmt.Sprintf("the new schema stops %s, of an older program", inUse(migrations.Use{Workers: e.Workers}))
		p.hint = "stop them: they hand on their runs, which wait; then migrate, and start workers of this program. --force migrates all the same"
		return true
	}
	if e, ok := errors.AsType[*migrations.EncodingError](err); ok {
		p.kind, p.message, p.hint = checkFailed, e.Error(), migrations.EncodingHint
		return true
	}
	if e, ok := errors.AsType[*migrations.CopyError](err); ok {
		p.kind, p.message, p.hint = mayBeCopy, e.Message(), e.Hint()
		return true
	}
	switch {
	case errors.Is(err, migrations.ErrReadOnly):
		p.kind, p.hint = readOnly, primaryHint
		p.message, _, _ = strings.Cut(migrations.ErrReadOnly.Error(), ": ")
	case errors.Is(err, migrations.ErrReadOnlySession):
		p.kind = readOnly
		p.message, p.hint, _ = strings.Cut(migrations.ErrReadOnlySession.Error(), ": ")
	case errors.Is(err, migrations.ErrPooled):
		p.kind = invalid
		p.message, p.hint, _ = strings.Cut(migrations.ErrPooled.Error(), ": ")
	case errors.Is(err, migrations.ErrLocked):
		p.kind = conflict
	case errors.Is(err, migrations.ErrHeld):
		p.kind, p.hint = conflict, "wait for the end of such transactions, or end them, then type the command again: what was applied stays so"
	case errors.Is(err, migrations.ErrServerTooOld):
		p.kind = serverVersion
	default:
		return false
	}
	return true
}

func versionHint(e *migrations.VersionError) string {
	if e.Command == "" {
		return "upgrade this binary, or connect to the database that belongs to it"
	}
	return "run `" + e.Command + "`"
}

// report prints a problem to standard error: lines for people, or an object for -o json.
func (e *env) report(p problem, args []string) {
	if e.wantsJSON(args) {
		fmt.Fprintln(e.Stderr, p.json())
		return
	}
	paint := e.stderrPaint()
	for _, at := range p.lines(paint, e.StderrColumns) {
		fmt.Fprintf(e.Stderr, "%s %s\n", paint.bad(program+":"), runview.Printable(at.message))
		if at.snippet != "" {
			fmt.Fprintln(e.Stderr, at.snippet)
		}
		if at.hint != "" {
			fmt.Fprintf(e.Stderr, "%s %s\n", paint.note("hint:"), runview.Printable(at.hint))
		}
	}
}

type reportLine struct{ message, snippet, hint string }

// lines returns one line per problem: a file may have several.
func (p *problem) lines(paint painter, columns int) []reportLine {
	if len(p.places) == 0 {
		return []reportLine{{message: p.message, hint: p.hint}}
	}
	var lines []reportLine
	for _, at := range p.places {
		lines = append(lines, reportLine{at.Error(), paint.snippet(at.Line, at.Source, at.Column-1, columns), at.Hint})
	}
	return lines
}

func (p *problem) json() string {
	type body struct {
		runview.ErrorJSON

		Errors []jsonProblem `json:"errors,omitempty"`
	}
	b := body{runview.ErrorJSON{Code: p.code, Message: p.message, Hint: runview.TextOrNull(p.hint)}, p.files}
	for _, at := range p.places {
		b.Errors = append(b.Errors, jsonProblem{at.Path, &at.Line, &at.Column, at.Msg, runview.TextOrNull(at.Hint)})
	}
	return runview.CompactJSON(map[string]body{"error": b})
}

// wantsJSON reports whether the user wants JSON. Before the settings are loaded it searches the raw words, because the
// error may be that the command line is invalid.
func (e *env) wantsJSON(args []string) bool {
	if e.settings != nil {
		return isJSON(e.settings.Text("output"))
	}
	format, _ := e.Lookup("OARLOCK_OUTPUT")
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	for i, word := range args[:end] {
		name, value, inline := strings.Cut(word, "=")
		switch {
		case name != "-o" && name != "-output" && name != "--output":
			if short, ok := strings.CutPrefix(word, "-o"); ok && isJSON(short) {
				format = short
			}
		case inline:
			format = value
		case i+1 < end:
			format = args[i+1]
		}
	}
	return isJSON(format)
}

func isJSON(format string) bool { return format == "json" || format == "jsonl" }

func oneLine(s string) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "; ")
}
