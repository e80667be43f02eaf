package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/doctor"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/internal/pglocal"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/queue"
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

// fromSignal recognises a command that a signal ended, sets p, and reports whether it did. It comes first: an interrupted
// command can fail with many errors, and none of them is the reason.
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

// fromPrivatePostgres recognises errors of the private Postgres server, sets p, and reports whether it did. It comes before
// fromDatabase: an error of the private server must not be explained as one of the user's database.
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
		p.kind, p.message = conflict, fmt.Sprintf("the new schema stops %s of an older program", inUse(migrations.Use{Workers: e.Workers}))
		p.hint = "stop these workers; their runs wait. Then type the command again, and start workers of this program. With --force the command migrates although these workers run"
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
		p.kind, p.hint = conflict, "wait until these transactions end, or end the transactions; then type the command again. Applied migrations stay applied"
	case errors.Is(err, migrations.ErrServerTooOld):
		p.kind = serverVersion
	default:
		return false
	}
	return true
}

func versionHint(e *migrations.VersionError) string {
	if e.Command == "" {
		return "upgrade this binary, or connect to a database with a schema that this binary works with"
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
		fmt.Fprintf(e.Stderr, "%s %s\n", paint.Bad(program+":"), runview.Printable(at.message))
		if at.snippet != "" {
			fmt.Fprintln(e.Stderr, at.snippet)
		}
		if at.hint != "" {
			fmt.Fprintf(e.Stderr, "%s %s\n", paint.Note("hint:"), runview.Printable(at.hint))
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
		lines = append(lines, reportLine{at.Error(), paint.Snippet(at.Line, at.Source, at.Column-1, columns), at.Hint})
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

// advice is the kind and the hint with which the command line reports an SQLSTATE.
type advice struct {
	kind kind
	hint string
}

const ownerHint = "connect as the owner of the schema, or see `oarlock migrate roles --help`"

const primaryHint = "connect to the primary: write all hosts and target_session_attrs=read-write into the URL"

const migrateHint = "run `oarlock migrate up`; `oarlock migrate status` lists the migrations"

// sqlstates is the only table that gives an SQLSTATE its kind, and so its exit status. Its hint replaces the server's; with none,
// the server's hint is shown.
var sqlstates = map[string]advice{
	"28P01":        {authFailed, "check user and password in --database-url, DATABASE_URL, PGPASSWORD or ~/.pgpass"},
	"28000":        {authFailed, "check the user, and the server's pg_hba.conf for this user, database and address"},
	"3D000":        {unreachable, "create the database with `createdb`, or check its name in the URL"},
	"53300":        {kind: unreachable}, // fromDatabase sets the hint pglink.CrowdedHint
	"57P03":        {unreachable, "the server is starting up or shutting down: try again in a moment"},
	"25006":        {readOnly, primaryHint},
	"55000":        {kind: conflict}, // object not in the required state
	"55006":        {kind: conflict}, // object in use
	"42501":        {kind: denied},   // refused and fromDatabase set the hint
	"3F000":        {schemaVersion, migrateHint},
	"42P01":        {schemaVersion, migrateHint},
	"42703":        {schemaVersion, migrateHint},
	"42883":        {schemaVersion, migrateHint},
	"22P05":        {kind: invalid},
	"22021":        {kind: invalid},
	"OA001":        {notFound, "check the name; an administrator lists the DAGs with `oarlock dag list` and registers one with `oarlock dag apply FILE`"},
	dagRemovedCode: {kind: notFound},
	"OA003":        {kind: invalid},
	"OA004":        {kind: conflict},
	"OA005":        {kind: invalid},
	"OA006":        {conflict, "try again later, or have an administrator start workers or raise the limit of the queue: `oarlock queues set QUEUE --max-queued N`"},
	"OA007":        {kind: notFound},
	"OA008":        {kind: denied},
	"OA009":        {kind: invalid},
	"OA010":        {kind: conflict},
	"OA012":        {kind: invalid},
	"OA013":        {kind: invalid},
	"OA014":        {conflict, "wait until the run has ended, or type `oarlock cancel RUN`"},
	"OA015":        {kind: invalid},
	"OA016":        {notFound, "`oarlock schedules` lists the schedules that you may see"},
}

// advise sets kind and hint of p to those of an SQLSTATE, and reports whether the table has it.
func (p *problem) advise(sqlstate string) bool {
	a, ok := sqlstates[sqlstate]
	if ok {
		p.kind, p.hint = a.kind, cmp.Or(a.hint, p.hint)
	}
	return ok
}

// missingDatabase returns the name of the database that the server does not have; ok reports whether the error is about
// that.
func missingDatabase(server *pgconn.PgError) (name string, ok bool) {
	if server.Code != "3D000" {
		return "", false
	}
	_, rest, found := strings.Cut(server.Message, "\"") // the name is quoted in every language of the server
	name, _, ok = strings.Cut(rest, "\"")
	return name, found && ok && name != ""
}

// fromDatabase recognises errors of Postgres and of the connection to it, sets kind and hint of p, and reports whether it did.
func (p *problem) fromDatabase(err error) bool {
	server, _ := errors.AsType[*pgconn.PgError](err)
	connect, _ := errors.AsType[*pgconn.ConnectError](err)
	if server != nil {
		if sqlstates[server.Code].kind != schemaVersion { // a missing table is the schema's fault in statements of package queue only
			p.advise(server.Code)
		}
		if server.Code == "42501" {
			p.hint = ownerHint
		}
		if name, ok := missingDatabase(server); ok {
			p.hint = "create the database with `createdb " + runview.ShellWord(name) + "`, or check its name in the URL"
		}
		if server.Code == "53300" {
			p.hint = pglink.CrowdedHint(server)
		}
		p.fromPooler(err)
	}
	if connect != nil {
		p.connect(connect)
		return true
	}
	if class := pglink.Classify(err); class == pglink.NotExecuted || class == pglink.SessionLost {
		p.kind, p.hint = unreachable, cmp.Or(p.hint, "try again; if the connection breaks again, type `oarlock doctor`")
	}
	return server != nil || p.kind != general
}

// fromPooler sets kind and hint of p if the error is a refusal of PgBouncer.
func (p *problem) fromPooler(err error) {
	refusal := pglink.RefusalOf(err)
	switch {
	case refusal == nil:
		return
	case refusal.Param != "":
		p.kind = invalid
	case refusal.Login:
		p.kind = authFailed
	default:
		p.kind = unreachable
	}
	p.hint = refusal.Hint
}

// connect sets kind, message and hint of p to those of a connection that could not be made.
func (p *problem) connect(err *pgconn.ConnectError) {
	if p.kind == general {
		p.kind = unreachable
	}
	if pglink.Classify(err) == pglink.WrongNode {
		p.kind, p.hint = readOnly, primaryHint
	}
	if _, answered := errors.AsType[*pgconn.PgError](err); !answered {
		p.hint = cmp.Or(p.hint, doctor.CertificateHint(err), "check that the server runs at this host and port, and check --database-url, DATABASE_URL and the PG* variables")
	}
	p.message = doctor.Explain(err)
}

// outcomeUnknown has a code of its own, since it is neither success nor failure.
var outcomeUnknown = kind{"outcome_unknown", exitUnreachable}

const poolerHint = "set pool_mode = session for this database in the pooler's file, or set direct_url of the worker to the URL of the server " +
	"behind the pooler; see PgBouncer in docs/operations.md"

// fromQueue recognises the errors of package queue, sets p, and reports whether it did.
func (p *problem) fromQueue(err error) bool {
	if refusal, ok := errors.AsType[*queue.Error](err); ok {
		return p.refused(refusal)
	}
	short, isShort := errors.AsType[*queue.ShortError](err)
	switch {
	case errors.Is(err, queue.ErrPooled):
		p.kind, p.message, p.hint = invalid, queue.ErrPooled.Error(), poolerHint
	case isShort && short.Direct:
		p.kind, p.message, p.hint = unreachable, short.Error(), pglink.CrowdedHint(short.Refused)
	case isShort:
		p.kind, p.message, p.hint = invalid, short.Error(), pglink.WorkerPoolHint(short.Size)
		if refusal := pglink.RefusalOf(short.Refused); refusal != nil {
			p.hint = refusal.Hint
		}
	case errors.Is(err, queue.ErrWaiting):
		p.kind, p.message, p.hint = unreachable, "the pooler has no free connection", pglink.WaitHint()
	case errors.Is(err, queue.ErrNotFound):
		p.kind, p.message, p.hint = notFound, said(err, queue.ErrNotFound), cmp.Or(p.hint, runHint)
	case errors.Is(err, queue.ErrConflict):
		p.kind, p.message = conflict, said(err, queue.ErrConflict)
	case errors.Is(err, queue.ErrUnknown):
		p.kind, p.message = outcomeUnknown, "the connection broke: it is unknown whether the database made the change"
		if lost, ok := errors.AsType[*queue.UnknownError](err); ok {
			p.hint = lost.Hint
		}
	default:
		return false
	}
	return true
}

// refused sets p from a refusal by the database, and reports whether that was enough. If not, fromDatabase goes on: with an SQLSTATE
// that has no entry, or with one about the connection.
func (p *problem) refused(refusal *queue.Error) bool {
	p.message, p.hint = refusal.Message, refusal.Hint
	if !p.advise(refusal.Code) {
		return false
	}
	switch {
	case p.kind == authFailed || p.kind == unreachable || p.kind == readOnly:
		return false
	case strings.HasPrefix(refusal.Code, "55"): // about an object, or, if it is fatal, about a database that accepts no connections
		return false
	case p.kind == schemaVersion:
		p.message = "the database has no Oarlock schema, or a schema of another version"
	case refusal.Object == "runs": // the server's hint is about SQL
		p.hint = runHint
	case refusal.Object == "queues":
		p.hint = "check the name; an administrator lists the queues with `oarlock queues` and makes one with `oarlock queues set NAME`"
	}
	return true
}

// said returns the text that err adds to a sentinel, without the names of operations before it and the sentinel behind it.
func said(err, sentinel error) string {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if errors.Unwrap(e) == sentinel { //nolint:errorlint // which link of the chain wraps it directly is the question
			return strings.TrimSuffix(e.Error(), ": "+sentinel.Error())
		}
	}
	return err.Error()
}

const (
	toSubmit  = "oarlock_submit"
	toRead    = "oarlock_read"
	toWork    = "oarlock_worker"
	toApprove = "oarlock_approve"
	toAdmin   = "oarlock_admin"
)

// commandRoles is the role with which a login may use all of a command. Commands that are missing here need no role, or
// name the role they need themselves: migrate, worker, run, exec and dev.
var commandRoles = map[string]string{
	"enqueue": toSubmit, "list": toSubmit, "status": toSubmit, "cancel": toSubmit, "pause": toSubmit, "resume": toSubmit,
	"retry": toSubmit, "mark": toSubmit, "web": toSubmit,
	"schedules": toSubmit, "schedules show": toSubmit, "schedules next": toSubmit, "schedules fires": toSubmit, "schedules pause": toSubmit,
	"schedules resume": toSubmit, "schedules trigger": toSubmit, "schedules put": toSubmit, "schedules rm": toSubmit,
	"backfill": toSubmit, "backfill list": toSubmit, "backfill pause": toSubmit, "backfill resume": toSubmit, "backfill cancel": toSubmit,

	"approvals": toApprove, "approve": toApprove, "reject": toApprove,

	"logs": toRead, "events": toRead, "top": toRead, "stats": toRead, "workers": toRead, "queues": toRead, "pools": toRead, "pools show": toRead, "dag list": toRead, "dag show": toRead,
	"dag graph": toRead, "dag versions": toRead, dryPrune: toRead,

	"dag apply": toAdmin, "dag pause": toAdmin, "dag resume": toAdmin, "dag rm": toAdmin, "dag retire": toAdmin, "queues pause": toAdmin,
	"queues resume": toAdmin, "queues set": toAdmin, "pools set": toAdmin, "pools close": toAdmin, "pools open": toAdmin, "pools rm": toAdmin, "workers drain": toAdmin, "prune": toAdmin,
}

// steers are the commands that control a run. A user with toSubmit may control its own runs, a user with toAdmin any run.
var steers = map[string]bool{
	"cancel": true, "pause": true, "resume": true, "retry": true, "mark": true,
}

// dryPrune is `oarlock prune --dry-run`, which only counts.
const dryPrune = "prune --dry-run"

func grantHint(role string) string { return "have an administrator grant " + role + " to this user" }

// needRole sets the hint of a problem that is about missing privileges: the role that the command needs.
func (p *problem) needRole(command string, err error) {
	name := strings.TrimPrefix(command, program+" ")
	role, known := commandRoles[name]
	server, said := errors.AsType[*pgconn.PgError](err)
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	if known && said && !connecting && !errors.Is(err, queue.ErrNoGrants) && server.Code == "42501" {
		p.hint = grantHint(role)
		if steers[name] {
			p.hint += " for its own runs, or " + toAdmin + " for all runs"
		}
	}
}
