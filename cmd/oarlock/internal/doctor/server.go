package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"

	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/sql"
)

func (x *examination) serverVersion(context.Context) Check {
	if x.facts.VersionNum/10000 < migrations.MinServer {
		return fail("PostgreSQL %s", x.facts.Version).withHint("upgrade the server to PostgreSQL %d or newer", migrations.MinServer)
	}
	return ok("PostgreSQL %s", x.facts.Version)
}

func (x *examination) encoding(context.Context) Check {
	if x.facts.Encoding != migrations.Encoding {
		return fail("the encoding of the database is %s, not UTF-8", x.facts.Encoding).
			withHint(migrations.EncodingHint)
	}
	return ok(migrations.Encoding)
}

// transport warns if the connection is neither encrypted nor local, or if the client does not verify the server's certificate. It
// examines this end of the connection, since behind a pooler the server would describe the pooler's connection instead.
func (x *examination) transport(context.Context) Check {
	peer := x.conn.PgConn().Conn()
	addr := peer.RemoteAddr()
	here := false
	if tcp, isTCP := addr.(*net.TCPAddr); isTCP {
		here = tcp.IP.IsLoopback()
	}
	if encrypted, isTLS := peer.(*tls.Conn); isTLS {
		return describeTLS(encrypted.ConnectionState(), x.conn.Config().TLSConfig, here)
	}
	switch {
	case addr.Network() == "unix":
		return ok("unix socket")
	case here:
		return ok("the server %s is on this host", addr)
	}
	return warn("the connection to %s is not encrypted", addr).withHint("add sslmode=verify-full to the URL: otherwise passwords and data cross the network without encryption")
}

// describeTLS warns if the client does not verify the server's certificate. If here is set, the server is on this host, and it does
// not warn, since no attacker can sit in between.
func describeTLS(state tls.ConnectionState, config *tls.Config, here bool) Check {
	name := tls.VersionName(state.Version)
	checked := config == nil || !config.InsecureSkipVerify || config.VerifyPeerCertificate != nil || config.VerifyConnection != nil
	switch {
	case checked:
		return ok("the connection uses %s, and the server's certificate is checked", name)
	case here:
		return ok("the connection uses %s on this host; the server's certificate is not checked", name)
	}
	return warn("the connection uses %s, but the server's certificate is not checked", name).withHint("add sslmode=verify-full and sslrootcert to the URL: otherwise another machine can pretend to be the server")
}

func (x *examination) writable(context.Context) Check {
	const primary = "connect to the primary: write all hosts and target_session_attrs=read-write into the URL"
	switch {
	case x.facts.Standby:
		return fail("this server is a read-only standby").withHint(primary)
	case x.facts.ReadOnly:
		return fail("this session is read-only").withHint("find where default_transaction_read_only is on: the server, the database, the user or the URL can set it")
	}
	return ok("this server is a primary")
}

func (x *examination) migrations(ctx context.Context) Check {
	schema, err := migrations.Look(ctx, x.conn)
	if err == nil {
		err = schema.Check()
	}
	wrong, isVersion := errors.AsType[*migrations.VersionError](err)
	switch {
	case err == nil:
		return x.upgrade(ctx, schema)
	case mayNot(err):
		return fail("this user has no right to read the schema version").withHint("grant this user a role of Oarlock: see the result of the check privileges")
	case !isVersion:
		return fail("%s", Explain(err)).withHint("type `oarlock doctor` again; if the check fails in the same way again, look into the server's log")
	}
	seen, _, _ := strings.Cut(wrong.Error(), ": ")
	if wrong.Command != "" {
		return fail("%s", seen).withHint("run `%s`", wrong.Command)
	}
	return fail("%s", seen).withHint("upgrade this binary, or connect to a database with a schema that this binary works with")
}

// upgrade returns the result for a schema that this binary works with. It warns of an upgrade in progress: this binary, or the
// program of a worker at work, is older than the schema.
func (x *examination) upgrade(ctx context.Context, schema migrations.Schema) Check {
	if schema.Newer() {
		return warn("the schema has version %d; this binary is older, and works with the schema", schema.Version).withHint("upgrade this binary")
	}
	found, err := one[outdated](ctx, x.conn, outdatedSQL, schema.Version)
	switch {
	case err != nil && !mayNot(err):
		return broken("ask how old the programs of workers are", err)
	case found.Workers > 0:
		return warn("%d of the workers at work run an older program, which works with the schema: %s", found.Workers, found.Names).
			withHint("replace these workers by workers of the new program, one after the other")
	}
	return ok("this binary works with the schema")
}

// outdated counts the workers at work with programs that are older than the schema.
type outdated struct {
	Workers int
	Names   string // names of some of these workers
}

var outdatedSQL = sql.Named("doctor/outdated")

type privileges struct {
	HasSchema bool
	HasUsage  bool
	HasRoles  bool
	MemberOf  []string
	Superuser bool
	UserName  string
}

var privilegesSQL = sql.Named("doctor/privileges")

// grantRole is the advice for a user without a role of Oarlock.
const grantRole = "have an administrator grant this user a role: GRANT oarlock_submit TO %s for an application, oarlock_worker for a worker, oarlock_approve to decide approvals, oarlock_read to see all runs" // sql-shown: advice

func (x *examination) privileges(ctx context.Context) Check {
	p, err := one[privileges](ctx, x.conn, privilegesSQL)
	switch {
	case err != nil:
		return broken("read the privileges", err)
	case !p.HasSchema:
		return skip("the database has no schema oarlock yet")
	case !p.HasUsage && len(p.MemberOf) > 0:
		return fail("user %s has %s, but this database grants no rights to these roles", p.UserName, strings.Join(p.MemberOf, ", ")).
			withHint("have an administrator run `oarlock migrate roles` for this database")
	case !p.HasUsage:
		return fail("user %s has no right to use the schema oarlock", p.UserName).
			withHint(grantRole, p.UserName)
	case !p.HasRoles:
		return warn("Oarlock's group roles do not exist").withHint("run `oarlock migrate roles`: then applications and workers need not be the owner of the schema")
	case p.Superuser:
		return ok("user %s is a superuser", p.UserName)
	case len(p.MemberOf) == 0:
		return warn("user %s has none of Oarlock's group roles", p.UserName).
			withHint(grantRole, p.UserName)
	}
	return ok("user %s has %s", p.UserName, strings.Join(p.MemberOf, ", "))
}

func (x *examination) durability(context.Context) Check {
	const lost = "set %s to on: otherwise a crash of the server can lose committed data"
	switch f := x.facts; {
	case !f.Fsync:
		return fail("fsync is off").withHint(lost, "fsync")
	case !f.FullPageWrites:
		return fail("full_page_writes is off").withHint("set full_page_writes to on, unless the file system rules out torn pages: otherwise a crash can leave torn pages")
	case f.SynchronousCommit == "off":
		return fail("synchronous_commit is off").withHint(lost, "synchronous_commit")
	default:
		return ok("fsync is on, and synchronous_commit is %s", f.SynchronousCommit)
	}
}

func (x *examination) housekeeping(context.Context) Check {
	switch {
	case !x.facts.Autovacuum:
		return warn("autovacuum is off, or track_counts is off, which autovacuum needs").withHint("set autovacuum and track_counts to on: otherwise tables grow without end")
	case x.facts.IdleSessionTimeout != "0":
		return warn("idle_session_timeout is %s", x.facts.IdleSessionTimeout).withHint("set idle_session_timeout to 0 for Oarlock's users: otherwise the server ends the connections on which workers wait for notifications")
	}
	return ok("autovacuum is on, and idle_session_timeout is 0")
}
