package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

func decimal(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// healthy returns the facts of a server without problems.
func healthy() facts {
	return facts{
		VersionNum: 150000, Version: "15.0", Encoding: "UTF8", Fsync: true, FullPageWrites: true,
		SynchronousCommit: "on", Autovacuum: true, IdleSessionTimeout: "0", SeesAllSessions: true,
	}
}

func TestSettings_AreJudgedOneByOne(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change func(*facts)
		check  func(*examination, context.Context) Check
		status Status
		words  string
	}{
		"version":           {nil, (*examination).serverVersion, OK, "PostgreSQL 15.0"},
		"oldest version":    {func(f *facts) { f.VersionNum = 140000 }, (*examination).serverVersion, OK, ""},
		"old version":       {func(f *facts) { f.VersionNum = 139999 }, (*examination).serverVersion, Fail, ""},
		"encoding":          {nil, (*examination).encoding, OK, "UTF8"},
		"latin1":            {func(f *facts) { f.Encoding = "LATIN1" }, (*examination).encoding, Fail, "LATIN1"},
		"primary":           {nil, (*examination).writable, OK, "primary"},
		"standby":           {func(f *facts) { f.Standby, f.ReadOnly = true, true }, (*examination).writable, Fail, "standby"},
		"read-only":         {func(f *facts) { f.ReadOnly = true }, (*examination).writable, Fail, "session"},
		"durable":           {nil, (*examination).durability, OK, "synchronous_commit is on"},
		"remote_apply":      {func(f *facts) { f.SynchronousCommit = "remote_apply" }, (*examination).durability, OK, "remote_apply"},
		"no fsync":          {func(f *facts) { f.Fsync = false }, (*examination).durability, Fail, "fsync"},
		"torn pages":        {func(f *facts) { f.FullPageWrites = false }, (*examination).durability, Fail, "full_page_writes"},
		"async":             {func(f *facts) { f.SynchronousCommit = "off" }, (*examination).durability, Fail, "synchronous_commit"},
		"housekeeping":      {nil, (*examination).housekeeping, OK, ""},
		"no autovacuum":     {func(f *facts) { f.Autovacuum = false }, (*examination).housekeeping, Warn, "autovacuum"},
		"idle timeout":      {func(f *facts) { f.IdleSessionTimeout = "1min" }, (*examination).housekeeping, Warn, "1min"},
		"listen on standby": {func(f *facts) { f.Standby = true }, (*examination).listen, Skip, "standby"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := &examination{facts: healthy()}
			if c.change != nil {
				c.change(&x.facts)
			}
			wantCheck(t, c.check(x, t.Context()), c.status, c.words)
		})
	}
}

func TestEncoding_SaysHowToMakeADatabase(t *testing.T) {
	t.Parallel()
	x := &examination{facts: facts{Encoding: "SQL_ASCII"}}
	hint := x.encoding(t.Context()).Hint
	for _, want := range []string{"createdb --encoding UTF8 --template template0", "POSTGRES_INITDB_ARGS=--encoding=UTF8"} {
		if !strings.Contains(hint, want) {
			t.Errorf("%q does not name %s", hint, want)
		}
	}
}

func TestClock_WarnsOnlyBeyondWhatItCannotKnow(t *testing.T) {
	t.Parallel()
	cases := []struct {
		ahead, bound time.Duration
		status       Status
		words        string
	}{
		{time.Millisecond, time.Millisecond, OK, "1ms ahead, plus or minus 1ms"},
		{-time.Second, time.Millisecond, OK, "1s behind"},
		{3 * time.Second, time.Millisecond, Warn, "3s ahead"},
		{-3 * time.Second, time.Millisecond, Warn, "3s behind"},
		{3 * time.Second, 2 * time.Second, OK, "plus or minus 2s"},
	}
	for _, c := range cases {
		wantCheck(t, reading{c.ahead, c.bound}.judge(), c.status, c.words)
	}
}

func TestHolder_IsOldByTimeOrByTransactions(t *testing.T) {
	t.Parallel()
	cases := map[holder]bool{
		{Kind: "transaction", Name: "a", Seconds: 899, Xids: 1}:             false,
		{Kind: "transaction", Name: "a", Seconds: 901, Xids: 1}:             true,
		{Kind: "replication slot", Name: "b (inactive)", Xids: oldXids}:     false,
		{Kind: "replication slot", Name: "b (inactive)", Xids: oldXids + 1}: true,
		{Kind: "prepared transaction", Name: "c", Seconds: 3600, Xids: 1}:   true,
	}
	for h, want := range cases {
		if h.old() != want {
			t.Errorf("%s: old is %v, want %v", h, h.old(), want)
		}
	}
	if got, want := (holder{"transaction", "process 1 of user ana", 90, 12}).String(), "transaction process 1 of user ana is 1m30s and 12 transactions old"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestConnections_WarnByTheTightestLimit(t *testing.T) {
	t.Parallel()
	judge := func(needs int64, limits ...connections) Check { return judgeConnections(limits, needs, 7) }
	server, login := connections{"server", 3, 100, 3, 0, 0, false}, connections{"login app", 3, 10, 0, 0, 0, true}
	wantCheck(t, judge(9, server), OK, "3 of 100 connections are in use, the last 3 are for superusers (limit of the server)")
	both := "3 of 10 connections are in use (limit of the login app); 3 of 100 connections are in use, the last 3 are for superusers (limit of the server)"
	wantCheck(t, judge(9, server, login), Warn, both)
	wantCheck(t, judge(9, login, server), Warn, both)
	wantCheck(t, judge(7, login, server), OK, both)
	wantCheck(t, judge(0, connections{"server", 25, 25, 3, 0, 0, false}), Warn, "25 of 25 connections are in use, the last 3 are for superusers")
	if hint := judge(9, login).Hint; !strings.Contains(hint, "a worker keeps 9") || !strings.HasSuffix(hint, ": raise the limit of the login app") {
		t.Errorf("the hint does not name what a worker needs: %s", hint)
	}
	if hint := judge(99, server).Hint; !strings.Contains(hint, "put a pooler in front") {
		t.Errorf("the hint does not tell of poolers: %s", hint)
	}
}

// The check fails while a limit keeps connections from workers that need them. It warns when all workers have theirs and
// the next worker would find none.
func TestConnections_FailWhereWorkersLackSome(t *testing.T) {
	t.Parallel()
	server := connections{"server", 20, 100, 3, 2, 14, false}
	for _, c := range []struct {
		login connections
		want  Status
	}{
		{connections{"login app", 3, 3, 0, 2, 3, true}, Fail},
		{connections{"login app", 16, 16, 0, 2, 13, true}, Fail},
		{connections{"login app", 16, 17, 0, 2, 13, true}, Warn},
		{connections{"login app", 20, 20, 0, 2, 14, true}, Warn},
		{connections{"login app", 20, 30, 0, 2, 14, true}, OK},
	} {
		got := judgeConnections([]connections{server, c.login}, 10, 7)
		wantCheck(t, got, c.want, fmt.Sprintf("%d of %d connections are in use (limit of the login app)", c.login.Used, c.login.Allowed))
		if c.want == Fail && !strings.Contains(got.Hint, "(2) need 20 connections: raise the limit of the login app") {
			t.Errorf("the hint does not name what the workers need: %s", got.Hint)
		}
	}
}

// Superusers may use the connections that are reserved for them: then more are in use than an ordinary user may have, and
// none is free.
func TestConnections_OfTheReserveAreNoneForOthers(t *testing.T) {
	t.Parallel()
	for used, free := range map[int64]int64{0: 22, 21: 1, 22: 0, 23: 0, 25: 0} {
		if got := (connections{"server", used, 25, 3, 0, 0, false}).free(); got != free {
			t.Errorf("%d of 25 in use: %d free, want %d", used, got, free)
		}
	}
}

func TestTransport_WantsTheCertificateChecked(t *testing.T) {
	t.Parallel()
	state := tls.ConnectionState{Version: tls.VersionTLS13}
	wantCheck(t, describeTLS(state, &tls.Config{InsecureSkipVerify: true}, false), Warn, "TLS 1.3, but")
	wantCheck(t, describeTLS(state, &tls.Config{InsecureSkipVerify: true}, true), OK, "TLS 1.3 on this host")
	wantCheck(t, describeTLS(state, &tls.Config{ServerName: "db"}, false), OK, "TLS 1.3, and the server's certificate is checked")
	verifyCA := &tls.Config{ // as pgx implements sslmode=verify-ca
		InsecureSkipVerify:    true,
		VerifyPeerCertificate: func([][]byte, [][]*x509.Certificate) error { return nil },
	}
	wantCheck(t, describeTLS(state, verifyCA, false), OK, "checked")
}

func TestTarget_NamesEveryHostOnce(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"postgres://ana:hunter2@a:1,b:2/app":                 "ana@a:1,b:2/app",
		"postgres://ana@a/app?sslmode=prefer":                "ana@a:5432/app",
		"postgres://ana@[::1]:7/":                            "ana@[::1]:7/ana",
		"host=/run/postgresql port=5433 user=ana dbname=app": "ana@/run/postgresql/.s.PGSQL.5433/app",
	}
	for address, want := range cases {
		config, err := pgconn.ParseConfig(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := Target(config); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}

func TestReason_IsTheInnermostCause(t *testing.T) {
	t.Parallel()
	cases := map[string]error{
		`cannot find the address of host "db"`:      &net.DNSError{Name: "db"},
		"the server did not answer in time":         fmt.Errorf("dial: %w", context.DeadlineExceeded),
		"the server's certificate is not trusted: ": x509.UnknownAuthorityError{},
		"sorry":    fmt.Errorf("x: %w", &pgconn.PgError{Message: "sorry"}),
		"whatever": errors.New("whatever"),
	}
	for want, err := range cases {
		if got := reason(err); len(got) < len(want) || got[:len(want)] != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	both := fmt.Errorf("connect: %w", errors.Join(errors.New("a"), errors.Join(errors.New("b"), errors.New("a"))))
	if got := fmt.Sprint(reasons(both)); got != "[a b]" {
		t.Errorf("got %s, want each cause once", got)
	}
}
