package pglink

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// Class is the meaning of an error for the statement or transaction that returned it.
type Class int

// The classes that Classify returns.
const (
	OK          Class = iota // no error
	NotExecuted              // no server took the statement: send it again
	Aborted                  // rolled back for a temporary reason: run the transaction again
	SessionLost              // unknown: it may have been executed; read back before anything else
	WrongNode                // refused by a read-only server: reconnect, then verify the claim
	Degraded                 // the server is out of disk, memory or limits: shed load, logs first
	Permanent                // it fails again in the same way: stop
)

func (c Class) String() string {
	return [...]string{"ok", "not executed", "aborted", "session lost", "wrong node", "degraded", "permanent"}[c]
}

// classes lists the classes by SQLSTATE. A server's error with any other SQLSTATE is Permanent, unless the error ended the
// session.
var classes = map[string]Class{
	"57P03": NotExecuted, // cannot_connect_now
	"53300": NotExecuted, // too_many_connections
	"08001": NotExecuted, // sqlclient_unable_to_establish_sqlconnection
	"08004": NotExecuted, // sqlserver_rejected_establishment_of_sqlconnection
	"40001": Aborted,     // serialization_failure
	"40P01": Aborted,     // deadlock_detected
	"55P03": Aborted,     // lock_not_available
	"57014": Aborted,     // query_canceled: a statement timeout
	"0A000": Aborted,     // feature_not_supported: a cached plan met changed columns; Do tries it again once
	"57P01": SessionLost, // admin_shutdown
	"57P02": SessionLost, // crash_shutdown
	"57P05": SessionLost, // idle_session_timeout
	"25P03": SessionLost, // idle_in_transaction_session_timeout
	"40003": SessionLost, // statement_completion_unknown
	"25006": WrongNode,   // read_only_sql_transaction
	"53100": Degraded,    // disk_full
	"53200": Degraded,    // out_of_memory
	"53400": Degraded,    // configuration_limit_exceeded
	"58030": Degraded,    // io_error
	"54000": Degraded,    // program_limit_exceeded
}

// Classify returns what an error means for the statement or transaction that returned it. nil is OK, and an error that it does not
// know is Permanent. It does not ask the driver whether a retry is safe: see the package comment.
func Classify(err error) Class {
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case err == nil:
		return OK
	case errors.Is(err, ErrWaiting):
		return NotExecuted
	case errors.As(err, &connect):
		return classifyConnect(connect)
	case errors.As(err, &pg):
		return classifyServer(pg)
	case isDial(err):
		return NotExecuted
	case isTransport(err):
		return SessionLost
	}
	return Permanent
}

// isOutdated reports whether an error of the server means that the session still uses the number of a type that was dropped and
// created again. Only a new connection helps.
func isOutdated(pg *pgconn.PgError) bool {
	return pg.Code == "XX000" && strings.HasPrefix(pg.Message, "cache lookup failed for ") || pg.Routine == "lookup_type_cache"
}

// closeOutdated changes config so that each of its connections closes itself after an error for which isOutdated is true. A pool,
// or another owner of the connection, then replaces it like a broken connection. An OnPgError that config has already is still
// called.
func closeOutdated(config *pgconn.Config) {
	before := config.OnPgError
	config.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		keep := !isOutdated(err)
		return (before == nil || before(conn, err)) && keep
	}
}

func classifyServer(pg *pgconn.PgError) Class {
	if isOutdated(pg) {
		return SessionLost
	}
	if class, ok := classes[pg.Code]; ok {
		return class
	}
	if isPoolerRefusal(pg) {
		return Permanent
	}
	if strings.HasPrefix(pg.Code, "08") || pg.SeverityUnlocalized == "FATAL" || pg.SeverityUnlocalized == "PANIC" {
		return SessionLost
	}
	return Permanent
}

// classifyConnect returns the class of a failure to connect. Nothing was executed, so the class says only where and whether another
// try can succeed: NotExecuted for a later try, WrongNode for another server, Permanent for none.
func classifyConnect(err *pgconn.ConnectError) Class {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		if strings.Contains(err.Error(), "read only connection") { // target_session_attrs found no primary
			return WrongNode
		}
		return NotExecuted
	}
	if isPoolerRefusal(pg) {
		return Permanent
	}
	for _, class := range []string{"28", "3D", "42", "22"} { // password, database, permission to connect, a parameter
		if strings.HasPrefix(pg.Code, class) {
			return Permanent
		}
	}
	return NotExecuted
}

// isPoolerRefusal reports whether an error is a refusal of PgBouncer that the same client will get again. It returns false for a
// temporary refusal, such as a server that is down or a long queue, and for an error of the server itself.
func isPoolerRefusal(pg *pgconn.PgError) bool {
	r := RefusalOf(pg)
	return r != nil && r.Lasts
}

func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// isTransport reports whether an error means that the connection was lost, or that the context ended in the middle of a call.
func isTransport(err error) bool {
	for _, lost := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, pgconn.ErrConnClosed,
		driver.ErrBadConn, sql.ErrConnDone, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, lost) {
			return true
		}
	}
	var fromDriver interface{ SafeToRetry() bool } // the method alone matters: the driver's own connection errors have it
	return isNetwork(err) || errors.As(err, &fromDriver)
}

// isNetwork reports whether an error comes from a network connection. It excludes a bare errno, which comes from a file
// although Go counts it as a network error: errors of sockets are wrapped.
func isNetwork(err error) bool {
	var network net.Error
	if !errors.As(err, &network) {
		return false
	}
	_, file := network.(syscall.Errno)
	return !file
}
