package queue

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/internal/pglink"
)

func TestLink_CloseCutsOffWhatUsesIt(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	block := y.begin()
	y.in(block, "SELECT FROM oarlock.fences FOR UPDATE")
	l := newDedicatedConn(y.journal.conn.config)
	used := make(chan error, 1)
	go func() {
		used <- l.use(context.Background(), func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SET lock_timeout = 0; SELECT FROM oarlock.fences FOR UPDATE")
			return err
		})
	}()
	y.blocked(block, appName(y.worker))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v", err)
	}
	if err := y.outcome(used); err == nil {
		t.Error("what used the connection went on")
	}
	if l.conn != nil {
		t.Error("the connection is still there")
	}
	if err := l.use(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a use after close: %v", err)
	}
}

// mayNotEnd revokes the right to end connections from every role but the owner.
func (y *journalBundle) mayNotEnd() {
	y.tb.Helper()
	y.exec("REVOKE EXECUTE ON FUNCTION pg_terminate_backend(int, bigint) FROM PUBLIC")
}

// A flush with an unknown outcome gets no reply before its outcome is known, even if a new connection may not end the former one.
func TestFlush_OutlastsACopyThatItMayNotEnd(t *testing.T) {
	t.Parallel()
	y, proxy := through(t)
	y.mayNotEnd()
	tries := make(chan error, 1000)
	y.flushed = func(f FlushTry) { tries <- f.Err }
	c := y.claim()
	hold := proxy.Inject(netfault.Fault{When: flushBind, Do: netfault.Hold})
	defer hold.Release()
	done := y.later(batch(c, taskAt(0, 1, dagrun.TaskRunning)))
	for said := false; !said; {
		select {
		case err := <-done:
			t.Fatalf("answered with %v while the first copy may still land", err)
		case err := <-tries:
			said = err != nil && strings.Contains(err.Error(), "GRANT EXECUTE ON FUNCTION pg_terminate_backend")
		}
	}
	y.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND query !~ 'backend_start'", appName(y.worker))
	y.must(y.outcome(done))
	if got := y.tasks(c); len(got) != 1 {
		t.Errorf("tasks %v", got)
	}
}

func TestFlush_IsNotAnsweredByARefusedConnection(t *testing.T) {
	t.Parallel()
	y, proxy := through(t)
	c := y.claim()
	proxy.Inject(netfault.Fault{When: flushDone(), Do: netfault.Cut})
	role := y.db.RoleName("worker")
	y.exec("ALTER ROLE " + role + " NOLOGIN")
	tries := y.tries.Load()
	done := y.later(batch(c, taskAt(0, 1, dagrun.TaskRunning)))
	y.eventually("it tries again", func() bool { return y.tries.Load() > tries+3 })
	select {
	case err := <-done:
		t.Fatalf("answered with %v", err)
	default:
	}
	y.exec("ALTER ROLE " + role + " LOGIN")
	y.must(y.outcome(done))
}

// A server process that ends by itself while it is being ended counts as gone. Postgres answers that as it answers a wait that
// was too short.
func TestLink_EndsAFormerConnectionThatIsJustEnding(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	l := newDedicatedConn(y.journal.conn.config)
	conn, _, err := pglink.DialSession(t.Context(), l.config, nil)
	y.must(err)
	defer conn.Close(t.Context())
	for range 20 {
		former, _, err := pglink.DialSession(t.Context(), l.config, nil)
		y.must(err)
		y.must(former.QueryRow(t.Context(), whoServes, pgx.QueryExecModeExec).Scan(&l.server.pid, &l.server.started))
		closed := make(chan error, 1)
		go func() { closed <- former.Close(t.Context()) }()
		y.must(l.endFormer(t.Context(), conn))
		y.must(<-closed)
	}
}
