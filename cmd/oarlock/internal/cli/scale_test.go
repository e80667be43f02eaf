package cli

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/pgcluster"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/internal/pglocal"
)

const (
	scaleVariable = "OARLOCK_TEST_SCALE" // runs; each has ten tasks
	scaleFew      = 1_000
	scaleUsual    = 8_000
	scaleBatch    = 250_000
	scaleTimes    = 21
	scaleQueued   = 40 // one of so many runs is queued

	// A larger index is one or two levels deeper, and connections differ a little in what they read of catalogs.
	scaleSlack = 1.25
	scaleExtra = 60
)

// The commands cost the same however many runs there are: as many buffers among a thousand runs as among many more, and no
// scan of a table that grows. OARLOCK_TEST_SCALE=5000000 also prints how long the commands take then.
func TestScale_CommandsReadNoMoreAmongManyRuns(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("fills tables")
	}
	runs := scaleUsual
	if text := os.Getenv(scaleVariable); text != "" {
		var err error
		if runs, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	c := newCrowd(t, runs)
	c.fill(t, 1, scaleFew)
	before := c.measure(t)
	c.fill(t, scaleFew+1, runs)
	after := c.measure(t)
	for _, line := range c.lines() {
		t.Logf("%-30s %5d buffers among %d runs, %5d among %d", line, before[line].buffers, scaleFew, after[line].buffers, runs)
		most := int64(scaleSlack*float64(before[line].buffers)) + scaleExtra
		if strings.Contains(line, "--since") { // finds the moment by halving the runs
			most = int64(float64(most) * math.Log2(float64(runs)) / math.Log2(scaleFew))
		}
		if strings.HasPrefix(line, "top") { // counts queued runs up to a bound, which may cost a buffer each
			most += int64(min(runs/scaleQueued, 10_000))
		}
		if after[line].buffers > most {
			t.Errorf("%s reads %d buffers, at most %d are expected", line, after[line].buffers, most)
		}
		if after[line].scans > 0 {
			t.Errorf("%s scans whole tables %d times", line, after[line].scans)
		}
	}
	if runs > scaleUsual {
		c.time(t)
	}
}

// crowd is a database with many runs.
type crowd struct {
	env Env
	url string
}

// newCrowd makes a crowd. A large crowd gets a server of its own, without the durability that the test does not need.
func newCrowd(t *testing.T, runs int) *crowd {
	t.Helper()
	c := &crowd{env: testEnv()}
	if runs > scaleUsual {
		c.url = pgcluster.StartIn(t, pglocal.TempDir(), map[string]string{ // too large for memory
			"full_page_writes": "off", "synchronous_commit": "off", "max_wal_size": "8GB", "maintenance_work_mem": "512MB",
		}).URL()
	} else {
		c.url = pgtest.New(t).URL
	}
	c.env.Lookup = func(name string) (string, bool) {
		return map[string]string{"DATABASE_URL": c.url}[name], name == "DATABASE_URL"
	}
	c.env.Dir = t.TempDir()
	var steps strings.Builder
	for i := range 10 {
		fmt.Fprintf(&steps, "  - {id: s%d, run: 'true'}\n", i)
	}
	if err := os.WriteFile(filepath.Join(c.env.Dir, "wide.yaml"), []byte("name: wide\nsteps:\n"+steps.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c.run(t, "dag apply wide.yaml")
	return c
}

func (c *crowd) run(t *testing.T, line string) {
	t.Helper()
	if got := invoke(t, c.env, strings.Fields(line)...); got.exit != exitOK {
		t.Fatalf("%s: exit %d: %s", line, got.exit, got.stderr)
	}
}

// connect connects for one phase of the test: the server adds what a connection read to its statistics when the connection
// ends.
func (c *crowd) connect(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.url)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func (c *crowd) fill(t *testing.T, from, to int) {
	t.Helper()
	conn := c.connect(t)
	defer conn.Close(t.Context())
	began := time.Now()
	for at := from; at <= to; at += scaleBatch {
		for _, name := range []string{"scale_runs", "scale_tasks", "scale_chunks"} {
			if _, err := conn.Exec(t.Context(), statement(t, name), at, min(at+scaleBatch-1, to)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	for _, name := range []string{"scale_quiet", "scale_settle"} {
		if _, err := conn.Exec(t.Context(), statement(t, name)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	t.Logf("%d runs filled in after %v", to, time.Since(began))
}

func statement(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "sql", name+".sql"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// lines are the commands that the test measures.
func (c *crowd) lines() []string {
	return []string{
		"list", "list -n 100 -o json", "list --state failed", "list --dag wide --state queued", "list --since 2000-01-01T00:00:00Z",
		"status 507", "status @latest", "logs 1 --tail 100", "logs 750", "events 507", "top -o json",
	}
}

// cost is how much a command read.
type cost struct{ buffers, scans int64 }

func (c *crowd) measure(t *testing.T) map[string]cost {
	t.Helper()
	conn := c.connect(t)
	defer conn.Close(t.Context())
	costs := map[string]cost{}
	for _, line := range c.lines() {
		c.run(t, line) // fills caches
		before := c.read(t, conn)
		c.run(t, line)
		after := c.read(t, conn)
		costs[line] = cost{after.buffers - before.buffers, after.scans - before.scans}
	}
	return costs
}

// read waits until no other client is connected, and returns what was read so far.
func (c *crowd) read(t *testing.T, conn *pgx.Conn) (sum cost) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for others := true; others; <-tick.C {
		if err := conn.QueryRow(t.Context(), statement(t, "scale_others")).Scan(&others); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.QueryRow(t.Context(), statement(t, "scale_read")).Scan(&sum.buffers, &sum.scans); err != nil {
		t.Fatal(err)
	}
	return sum
}

// time logs how long the processes of commands take from start to end.
func (c *crowd) time(t *testing.T) {
	t.Helper()
	for _, line := range append(c.lines(), "version") {
		var took []time.Duration
		for range scaleTimes {
			cmd := exec.Command("oarlock", strings.Fields(line)...)
			cmd.Env = append(os.Environ(), "DATABASE_URL="+c.url, "OARLOCK_CONFIG=/dev/null")
			began := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", line, err, out)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		t.Logf("%-30s median %v, longest %v of %d", line, took[scaleTimes/2].Round(time.Millisecond), took[scaleTimes-1].Round(time.Millisecond), scaleTimes)
	}
}
