package pglink

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Refusal is the reason why a pooler rejects a client, or ends its connection.
type Refusal struct {
	Param string // the parameter of the URL that the pooler rejects; "": another reason
	Login bool   // the user or the password is wrong
	Lasts bool   // the pooler will refuse the same client again
	Pool  bool   // all server connections of the pool are taken
	Hint  string // text for the pooler's files; "": no hint is known
}

// protocolViolation is the SQLSTATE of every error of PgBouncer itself.
const protocolViolation = "08P01"

// amplePool is twice PgBouncer's default pool size.
const amplePool = 40

// PoolHint returns a hint with the settings of the pooler by which it lends size connections.
func PoolHint(size int) string {
	return fmt.Sprintf("set default_pool_size = %d in the pooler's file; if the file also has pool_size in the database's line, "+
		"max_db_connections or max_user_connections, set each of these settings to %[1]d or more", size)
}

// WorkerPoolHint is PoolHint for a worker, which may also bypass the pooler.
func WorkerPoolHint(size int) string {
	return PoolHint(size) + "; or set direct_url to the URL of the server behind the pooler; see PgBouncer in docs/operations.md"
}

// WaitHint returns the hint for a client that gets no connection from the pooler.
func WaitHint() string {
	return "try again; if the pooler still has no free connection, " + PoolHint(amplePool)
}

const (
	userLine = `the pooler's auth_file needs the line {user} "PASSWORD"`

	loginHint  = "check user and password in --database-url, DATABASE_URL, PGPASSWORD or ~/.pgpass; " + userLine
	hbaHint    = "the pooler's auth_hba_file needs a line that lets this user in: host {database} {user} ADDRESS/32 scram-sha-256"
	serverHint = "the server is away or refuses the pooler: check host and port of the line {database} = host=SERVER port=5432 in [databases] " +
		"of the pooler's file, and the user's password in the pooler's auth_file"
)

// refusals lists refusals by the beginning of PgBouncer's message, because all messages have one SQLSTATE. A server's error
// that PgBouncer passes on has that SQLSTATE too. … stands for any name, {database} and {user} for those of the client. The
// first match counts.
var refusals = []struct {
	words string
	Refusal
}{
	{"query_wait_timeout", Refusal{Pool: true, Hint: WaitHint()}},
	{"no more connections allowed (max_client_conn)", Refusal{Hint: "set max_client_conn = 1000 in the pooler's file; the default is 100"}},
	{"client connections exceeded (max_db_client_connections)", Refusal{Hint: "set max_db_client_connections = 0 in the pooler's file and on the database's line; 0 means no limit"}},
	{"client connections exceeded (max_user_client_connections)", Refusal{Hint: "set max_user_client_connections = 0 in the pooler's file and on the user's line; 0 means no limit"}},
	{"no such database: ", Refusal{Lasts: true, Hint: "check the name in the URL, or add the line {database} = host=SERVER port=5432 to [databases] of the pooler's file"}},
	{`database "…" does not exist`, Refusal{Lasts: true, Hint: "create the database on the server with `createdb {database}`, or check the name in the URL"}},
	{`database "…" is disabled`, Refusal{Hint: "enable the database in the pooler's console: ENABLE {database}"}},
	{`role "…" does not exist`, Refusal{Login: true, Lasts: true, Hint: "check the user in the URL: the server behind the pooler has no such role"}},
	{"SSL required", Refusal{Lasts: true, Hint: "write sslmode=require into the URL, or set client_tls_sslmode = prefer in the pooler's file"}},
	{"no such user", Refusal{Login: true, Lasts: true, Hint: userLine}},
	{`"trust" authentication failed`, Refusal{Login: true, Lasts: true, Hint: userLine}},
	{"password authentication failed for user ", Refusal{Login: true, Lasts: true, Hint: "the server refuses the password that the pooler has: " + userLine}},
	{"password authentication failed", Refusal{Login: true, Lasts: true, Hint: loginHint}},
	{"SASL authentication failed", Refusal{Login: true, Lasts: true, Hint: loginHint}},
	{"empty password returned by client", Refusal{Login: true, Lasts: true, Hint: loginHint}},
	{"server login failed: ", Refusal{Login: true, Lasts: true, Hint: "the server wants a password that the pooler does not have: " + userLine}},
	{"login rejected", Refusal{Login: true, Lasts: true, Hint: hbaHint}},
	{"server login has been failing", Refusal{Hint: serverHint}},
	{"client_login_timeout (server down)", Refusal{Hint: serverHint}},
}

// RefusalOf returns the refusal that err reports. It returns nil if err does not come from a pooler, and if it does not know the
// pooler's message.
func RefusalOf(err error) *Refusal {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pg.Code != protocolViolation {
		return nil
	}
	if name, refused := RefusedParameter(pg); refused {
		return &Refusal{Param: name, Lasts: true, Hint: fmt.Sprintf("remove %s from the URL, and set it for the user or the database with ALTER … SET; "+ // sql-shown: what to do
			"or let the pooler ignore this parameter: ignore_startup_parameters = extra_float_digits,%s", name, name)}
	}
	for _, known := range refusals {
		before, after, _ := strings.Cut(known.words, "…")
		if !strings.HasPrefix(pg.Message, before) || !strings.HasSuffix(pg.Message, after) {
			continue
		}
		r := known.Refusal
		database, user := "DATABASE", "USER"
		if connect, ok := errors.AsType[*pgconn.ConnectError](err); ok {
			database, user = connect.Config.Database, connect.Config.User
		}
		r.Hint = strings.NewReplacer("{database}", iniName(database), "{user}", iniQuote(user)).Replace(r.Hint)
		return &r
	}
	return nil
}

// CrowdedHint returns a hint for the error of a server that accepts no more connections: of the role, to the database, or at all.
// All these limits share one SQLSTATE, and messages are translated. So the hint depends on the server function that reported the
// error.
func CrowdedHint(err error) string {
	pg, _ := errors.AsType[*pgconn.PgError](err)
	switch {
	case pg != nil && pg.Routine == "InitializeSessionUserId":
		return "close connections of this role, or raise its limit: ALTER ROLE … CONNECTION LIMIT …" // sql-shown: what to do
	case pg != nil && pg.Routine == "CheckMyDatabase":
		return "close connections to this database, or raise its limit: ALTER DATABASE … CONNECTION LIMIT …" // sql-shown: what to do
	}
	return "close connections, raise max_connections, or put a pooler in front of the server"
}

// RefusedParameter returns the name of the parameter that a pooler rejected at the start of a connection. It returns false if err
// is no such rejection.
func RefusedParameter(err error) (name string, refused bool) {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pg.Code != protocolViolation {
		return "", false
	}
	rest, found := strings.CutPrefix(pg.Message, "unsupported startup parameter")
	if !found {
		return "", false
	}
	_, name, _ = strings.Cut(rest, ": ")
	name, _, _ = strings.Cut(name, "=")
	return name, true
}

// iniName returns a name as it is written in a file of PgBouncer: quoted, unless it is a plain word.
func iniName(name string) string {
	special := func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}
	if name != "" && !strings.ContainsFunc(name, special) {
		return name
	}
	return iniQuote(name)
}

func iniQuote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
