package pglink_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglink"
)

func TestParse_FillsInWhatTheDriverLeavesOut(t *testing.T) {
	t.Parallel()
	config, err := pglink.Parse("postgres://ana@db/app", pglink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if config.ConnectTimeout != pglink.DefaultConnectTimeout {
		t.Errorf("connect timeout %v", config.ConnectTimeout)
	}
	if got := config.RuntimeParams["application_name"]; got != "oarlock" {
		t.Errorf("application_name %q", got)
	}
}

func TestParse_LetsTheURLDecide(t *testing.T) {
	t.Parallel()
	config, err := pglink.Parse("postgres://ana@db/app?connect_timeout=7&application_name=mine&pool_max_conns=9", pglink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if config.ConnectTimeout != 7*time.Second {
		t.Errorf("connect timeout %v", config.ConnectTimeout)
	}
	if got := config.RuntimeParams["application_name"]; got != "mine" {
		t.Errorf("application_name %q", got)
	}
	if _, sent := config.RuntimeParams["pool_max_conns"]; sent {
		t.Error("a setting of the pool is sent to the server")
	}
}

func TestParse_AppNameOfTheProgramWins(t *testing.T) {
	t.Parallel()
	config, err := pglink.Parse("postgres://ana@db/app?application_name=mine", pglink.Options{AppName: "oarlock/w1"})
	if err != nil {
		t.Fatal(err)
	}
	if got := config.RuntimeParams["application_name"]; got != "oarlock/w1" {
		t.Errorf("application_name %q", got)
	}
}

func TestParse_RefusesTheSimpleProtocol(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://db/app?default_query_exec_mode=simple_protocol", "host=db default_query_exec_mode=simple_protocol"} {
		if _, err := pglink.Parse(url, pglink.Options{}); err == nil || !strings.Contains(err.Error(), "simple_protocol is refused") {
			t.Errorf("%s: error %v", url, err)
		}
	}
}

func TestParse_EmptyURLMeansTheEnvironment(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("PGSERVICEFILE", write("services", "[oar]\nhost=db.example\nport=6000\ndbname=app\nuser=ana\n"))
	t.Setenv("PGSERVICE", "oar")
	t.Setenv("PGPASSFILE", write("pass", "db.example:6000:app:ana:s3cret\n"))
	for _, name := range []string{"PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	config, err := pglink.Parse("", pglink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "db.example" || config.Port != 6000 || config.Database != "app" || config.User != "ana" || config.Password != "s3cret" {
		t.Errorf("parsed %s:%d/%s as %s with password %q", config.Host, config.Port, config.Database, config.User, config.Password)
	}
}

func TestConnect_TellsTheServerWhoItIs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn, err := pglink.Connect(t.Context(), b.url, pglink.Options{AppName: "oarlock/w1", Writer: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for setting, want := range map[string]string{"application_name": "oarlock/w1", "client_connection_check_interval": "5s"} {
		var got string
		if err := conn.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", setting, got, err, want)
		}
	}
}

func TestConnect_EndsInTimeAtASilentServer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.proxy.Freeze()
	_, err := pglink.Connect(t.Context(), b.through, pglink.Options{ConnectTimeout: 50 * time.Millisecond})
	if pglink.Classify(err) != pglink.NotExecuted {
		t.Errorf("error %v, want a connection that was not made", err)
	}
}

func TestConnect_ErrorsNeverShowThePassword(t *testing.T) {
	t.Parallel()
	const secret = "s3cretpw"
	for _, url := range []string{"postgres://ana:" + secret + "@127.0.0.1:1/app", "host=127.0.0.1 port=1 password=" + secret} {
		_, err := pglink.Connect(t.Context(), url, pglink.Options{})
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("error %v", err)
		}
	}
}

func TestNewPool_TakesSizesFromOptionsUnlessTheURLHasThem(t *testing.T) {
	t.Parallel()
	b := setup(t)
	separator := "?"
	if strings.Contains(b.url, "?") {
		separator = "&"
	}
	for url, want := range map[string]int32{b.url: 3, b.url + separator + "pool_max_conns=2": 2} {
		pool, err := pglink.NewPool(t.Context(), url, pglink.Options{MaxConns: 3, MinConns: 5})
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		c := pool.Config()
		if c.MaxConns != want || c.MinConns != want || c.PingTimeout != pglink.DefaultPingTimeout {
			t.Errorf("max %d, min %d, ping %v; want sizes of %d", c.MaxConns, c.MinConns, c.PingTimeout, want)
		}
	}
}

func TestNewPool_FailsAtOnceWithoutAServer(t *testing.T) {
	t.Parallel()
	if _, err := pglink.NewPool(t.Context(), "postgres://ana@127.0.0.1:1/app", pglink.Options{}); pglink.Classify(err) != pglink.NotExecuted {
		t.Errorf("error %v, want a connection that was not made", err)
	}
}

func TestConnect_TracesStatementsWithoutTheirArguments(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var log logbook
	conn, err := pglink.Connect(t.Context(), b.url, pglink.Options{AnyPath: true, Log: slog.New(log.handler(slog.LevelDebug))})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), "INSERT INTO ledger (key) VALUES ($1)", "s3cret"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT $1::text::int", "s3cret"); err == nil {
		t.Fatal("a word became a number")
	}
	if _, err := conn.Exec(t.Context(), "ALTER ROLE nobody_here PASSWORD 's3cret'"); err == nil {
		t.Fatal("a role that does not exist was altered")
	}
	text := log.String()
	for _, want := range []string{"INSERT INTO ledger", "22P02", "ALTER ROLE nobody_here", "took="} {
		if !strings.Contains(text, want) {
			t.Errorf("the trace does not hold %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "s3cret") {
		t.Errorf("the trace holds an argument:\n%s", text)
	}
}

func TestConnect_DoesNotTraceBelowDebug(t *testing.T) {
	t.Parallel()
	var log logbook
	config, err := pglink.Parse("postgres://db/app", pglink.Options{Log: slog.New(log.handler(slog.LevelInfo))})
	if err != nil {
		t.Fatal(err)
	}
	if config.Tracer != nil {
		t.Error("statements are traced for nobody to see")
	}
}

// socket returns the TCP connection below a connection to the proxy.
func socket(t *testing.T, conn *pgx.Conn) *net.TCPConn {
	t.Helper()
	tcp, ok := conn.PgConn().Conn().(*net.TCPConn)
	if !ok {
		t.Fatalf("not a TCP connection: %T", conn.PgConn().Conn())
	}
	return tcp
}

// A refitted connection has the parameters of its new job, and no parameter that only the former job set.
func TestRefit_MakesAConnectionAsIfForTheOtherJob(t *testing.T) {
	t.Parallel()
	b := setup(t)
	config, err := pglink.Parse(b.url, pglink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plain, steady, flush := config.Copy(), config.Copy(), config.Copy()
	pglink.AsSteady(steady)
	pglink.AsFlush(flush)
	conn, err := pglink.Dial(t.Context(), steady, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	before := steady
	for _, to := range []struct {
		config *pgx.ConnConfig
		want   string
	}{
		{flush, "250ms on off force_generic_plan"}, {steady, "0 off off force_generic_plan"}, {plain, "0 on on auto"}, {flush, "250ms on off force_generic_plan"},
	} {
		if err := pglink.Refit(t.Context(), conn, before, to.config); err != nil {
			t.Fatal(err)
		}
		before = to.config
		var got string
		err := conn.QueryRow(t.Context(), `SELECT concat_ws(' ', current_setting('lock_timeout'), current_setting('enable_sort'),
			current_setting('enable_seqscan'), current_setting('plan_cache_mode'))`).Scan(&got)
		if err != nil || got != to.want {
			t.Errorf("got %s (%v), want %s", got, err, to.want)
		}
	}
}
