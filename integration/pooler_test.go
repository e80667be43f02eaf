package integration

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

const pooledDAG = "testdata/pooled.yaml"

const pooledEnd = "succeeded a=succeeded q=succeeded"

// modes are the pool modes that users use.
var modes = []string{"session", "transaction"}

// throughPooler returns a bench with workers and commands that go through a PgBouncer.
func throughPooler(t *testing.T, p pgtest.PgBouncer) (b *testBundle, direct string) {
	t.Helper()
	b = setup(t)
	p.Logins = append(p.Logins, b.db.URL)
	direct, b.url = b.url, p.Start(t, b.url)
	return b, direct
}

func TestPooler_LetsWorkersWork(t *testing.T) {
	t.Parallel()
	all := "search_path, jit, synchronous_commit, default_transaction_isolation, tcp_keepalives_idle, tcp_keepalives_interval, " +
		"tcp_keepalives_count, tcp_user_timeout, client_connection_check_interval, lock_timeout, plan_cache_mode, enable_seqscan, " +
		"enable_bitmapscan, enable_hashjoin, enable_mergejoin, enable_sort"
	cases := map[string]struct {
		pooler   pgtest.PgBouncer
		settings []string // $DIRECT is the URL past the pooler
	}{
		"session mode as it comes":             {pgtest.PgBouncer{}, nil},
		"session mode that ignores all":        {pgtest.PgBouncer{Ignore: all}, nil},
		"session mode of just enough":          {pgtest.PgBouncer{Size: 11}, []string{"slots=2"}}, // one of them for the query
		"transaction mode and direct":          {pgtest.PgBouncer{Mode: "transaction"}, []string{"direct_url=$DIRECT"}},
		"transaction mode and direct, polling": {pgtest.PgBouncer{Mode: "transaction"}, []string{"direct_url=$DIRECT", "poll_only=true"}},
		"transaction mode that ignores all":    {pgtest.PgBouncer{Mode: "transaction", Ignore: all}, []string{"direct_url=$DIRECT"}},
		"transaction mode of one and direct":   {pgtest.PgBouncer{Mode: "transaction", Size: 1}, []string{"direct_url=$DIRECT"}},
		"transaction mode and session mode":    {pgtest.PgBouncer{Mode: "transaction"}, []string{"direct_url=$SESSION"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, direct := throughPooler(t, c.pooler)
			b.put(t, read(t, pooledDAG))
			var settings []string
			for _, s := range c.settings {
				if strings.Contains(s, "$SESSION") {
					s = strings.ReplaceAll(s, "$SESSION", pgtest.PgBouncer{}.Start(t, direct))
				}
				settings = append(settings, strings.ReplaceAll(s, "$DIRECT", direct))
			}
			b.worker(t, "w1", settings...)
			for range 3 {
				if got := b.await(t, b.enqueue(t, "pooled", nil)); got != pooledEnd {
					t.Errorf("got %s, want %s", got, pooledEnd)
				}
			}
		})
	}
}

// onlyFsync is the only complaint of doctor about the server of tests.
const onlyFsync = " checks failed: durability\n"

// A worker names the line that must be added, and doctor has named it before. Transaction mode, and a pool that is only
// too small, are in a scene of the runbook.
func TestPooler_ThatWorkersCannotUseIsRefused(t *testing.T) {
	small, _ := throughPooler(t, pgtest.PgBouncer{Size: 1})
	waiting := small.worker(t, "w1") // for half a minute, which passes while this test waits for its turn
	t.Parallel()                     // but not its cases: parallel cases begin after all other tests
	cases := map[string]struct {
		pooler pgtest.PgBouncer
		param  string // of the URL
		want   []string
		status int // of doctor
		doctor []string
	}{
		"statement mode": {
			pooler: pgtest.PgBouncer{Mode: "statement"}, want: []string{"pool_mode = session", "direct_url"},
			status: 1, doctor: []string{"pool_mode = session"},
		},
		"a parameter of yours": {
			param: "&statement_timeout=60000", want: []string{"unsupported startup parameter: statement_timeout", "ignore_startup_parameters = extra_float_digits,statement_timeout"},
			status: 6, doctor: []string{"ignore_startup_parameters = extra_float_digits,statement_timeout"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b, _ := throughPooler(t, c.pooler)
			b.url += c.param
			b.refused(t, b.worker(t, "w1"), c.want...)
			b.start(t, []string{"database_url=" + b.url}, "doctor").ends(t, c.status, c.doctor...)
		})
	}
	t.Run("a pool of one", func(t *testing.T) {
		small.refused(t, waiting, "default_pool_size = 10 ")
		small.start(t, []string{"database_url=" + small.url}, "doctor").ends(t, 1, "default_pool_size = 10 ", onlyFsync)
	})
}

// refused waits for the end of a worker that cannot use its pooler.
func (b *testBundle) refused(t *testing.T, w *process, words ...string) {
	t.Helper()
	w.ends(t, 6, words...)
	if live := b.live(t); live != "" {
		t.Errorf("%s is registered", live)
	}
}

// ends waits for the end of a process, and expects these words in its output.
func (p *process) ends(t *testing.T, status int, words ...string) {
	t.Helper()
	if code := p.exit(t); code != status {
		t.Errorf("%v: it ended with %d, want %d", p.Args[1:], code, status)
	}
	for _, w := range words {
		if !p.saw(w) {
			t.Errorf("%v: it does not say %q", p.Args[1:], w)
		}
	}
}

// A pool of one connection is enough for each command.
func TestPooler_LetsCommandsThrough(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			b := setup(t)
			b.commands(t, pgtest.PgBouncer{Mode: mode, Size: 1}.Start(t, b.db.URL))
		})
	}
}

// commands runs the usual commands.
func (b *testBundle) commands(t *testing.T, url string) {
	t.Helper()
	b.put(t, read(t, pooledDAG))
	b.worker(t, "w1") // past the pooler
	people := *b
	people.url = url
	for range 5 {
		people.oarlock(t, "enqueue", "pooled", "--wait")
	}
	for _, words := range []string{
		"status @latest", "status @latest --watch", "list", "logs @latest", "logs @latest -f", "events @latest", "stats", "workers",
		"queues", "dag list", "migrate status", "dag pause pooled", "enqueue pooled", "cancel @latest", "prune --dry-run",
	} {
		people.oarlock(t, strings.Fields(words)...)
	}
}

// The lock of a migration belongs to a session.
func TestPooler_LetsMigrationsThroughBySession(t *testing.T) {
	t.Parallel()
	b, empty := setup(t), pgtest.Empty(t).URL
	by := pgtest.PgBouncer{Mode: "transaction"}.Start(t, empty)
	b.start(t, []string{"database_url=" + by}, "migrate", "up").ends(t, 6, "pool_mode = session")
	b.start(t, []string{"database_url=" + pgtest.PgBouncer{}.Start(t, empty)}, "migrate", "up").ends(t, 0)
}

func TestPooler_LetsSubmittersThrough(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.put(t, read(t, pooledDAG))
			url := pgtest.PgBouncer{Mode: mode, Size: 2}.Start(t, b.db.URL)
			if mode == "transaction" {
				url += "&default_query_exec_mode=cache_describe" // as docs/operations.md says about pgx
			}
			pool, err := pgxpool.New(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			statement := read(t, "testdata/enqueue.sql")
			for i := range 10 {
				var run int64
				if err := pool.QueryRow(t.Context(), statement, "pooled").Scan(&run); err != nil || run == 0 {
					t.Fatalf("%d: run %d, %v", i, run, err)
				}
			}
		})
	}
}
