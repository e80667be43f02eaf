package cli

import (
	"cmp"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/doctor"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/internal/runview"
)

// advice is the kind and the hint with which the command line reports an SQLSTATE.
type advice struct {
	kind kind
	hint string
}

const primaryHint = "connect to the primary: name all hosts and add target_session_attrs=read-write to the URL"

var adviceFor = map[string]advice{
	"28P01": {authFailed, "check user and password in --database-url, DATABASE_URL, PGPASSWORD or ~/.pgpass"},
	"28000": {authFailed, "check the user, and the server's pg_hba.conf for this user, database and address"},
	"3D000": {unreachable, "create it with `createdb`, or check the name in the URL"},
	"53300": {kind: unreachable}, // fromDatabase sets the hint pglink.CrowdedHint
	"57P03": {unreachable, "the server is starting up or shutting down: try again in a moment"},
	"25006": {readOnly, primaryHint},
	"55000": {kind: conflict}, // object not in the required state: the hint is the server's
	"55006": {kind: conflict}, // object in use
	"42501": {denied, "connect as the owner of the schema, or see `oarlock migrate roles --help`"},
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

// fromDatabase recognises errors of Postgres and of the connection to it.
func (p *problem) fromDatabase(err error) bool {
	server, _ := errors.AsType[*pgconn.PgError](err)
	connect, _ := errors.AsType[*pgconn.ConnectError](err)
	if server != nil {
		if a, ok := adviceFor[server.Code]; ok {
			p.kind, p.hint = a.kind, cmp.Or(a.hint, p.hint)
		}
		if name, ok := missingDatabase(server); ok {
			p.hint = "create it with `createdb " + runview.ShellWord(name) + "`, or check the name in the URL"
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
		p.kind, p.hint = unreachable, cmp.Or(p.hint, "the connection broke: try again, and see `oarlock doctor`")
	}
	return server != nil || p.kind != general
}

// fromPooler recognises the refusals of PgBouncer.
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

// connect describes the error of a connection that could not be made.
func (p *problem) connect(err *pgconn.ConnectError) {
	if p.kind == general {
		p.kind = unreachable
	}
	if pglink.Classify(err) == pglink.WrongNode {
		p.kind, p.hint = readOnly, primaryHint
	}
	if _, answered := errors.AsType[*pgconn.PgError](err); !answered {
		p.hint = cmp.Or(p.hint, doctor.CertificateHint(err), "is the server running there? check --database-url, DATABASE_URL and the PG* variables")
	}
	p.message = doctor.Explain(err)
}
