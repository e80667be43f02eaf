package doctor

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/pgcluster"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

func TestInvariants_TellWhatIsBroken(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	db := pgtest.New(t)
	look := func() Check {
		report, err := Run(t.Context(), db.URL, quiet)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range report.Checks {
			if c.Name == "invariants" {
				return c
			}
		}
		t.Fatal("no such check")
		return Check{}
	}
	if c := look(); c.Status != OK || !strings.HasPrefix(c.Detail, "all ") {
		t.Errorf("a fresh database: %+v", c)
	}
	conn := db.Conn(t)
	defer conn.Close(t.Context())
	execFile(t, conn, "succeeded_twice.sql")
	if c := look(); c.Status != Fail || !strings.Contains(c.Detail, "s1_succeeded_twice (1, the first: ") || c.Hint == "" {
		t.Errorf("a task that succeeded twice: %+v", c)
	}
}

// Runs that wait beside workers with room are no fault: no row tells how long these workers were cut off before. Workers
// that are quiet or unfit claim nothing, however much room they have.
func TestInvariants_WarnOfRunsPassedOver(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	db := pgtest.New(t)
	conn, x := db.Conn(t), begin(t, db.URL)
	scenes, err := os.ReadFile("testdata/passed_over.sql")
	if err != nil {
		t.Fatal(err)
	}
	for i, scene := range strings.Split(string(scenes), "\n\n") {
		if _, err := conn.Exec(t.Context(), scene); err != nil {
			t.Fatalf("%s: %v", scene, err)
		}
		got := x.invariants(t.Context())
		if i > 0 {
			wantCheck(t, got, OK, "all ")
			continue
		}
		wantCheck(t, got, Warn, "1 run was due for a minute, although workers had free slots; the first run: ")
		if !strings.Contains(got.Hint, "for minutes") {
			t.Errorf("the hint is %q", got.Hint)
		}
	}
}

// A failover that lost commits explains missing pieces of logs, as documented. Without a failover nothing explains them.
func TestInvariants_TellGapsThatAFailoverExplains(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	primary := pgcluster.Start(t, nil)
	execOn(t, primary.URL(), "log_gap.sql")
	got := begin(t, primary.URL()).invariants(t.Context())
	wantCheck(t, got, Fail, "this server never failed over: g1_log_gap (1, the first: ")

	standby := primary.Standby(t)
	standby.Follow(t, primary)
	primary.Stop(t)
	standby.Promote(t)
	x := begin(t, standby.URL())
	got = x.invariants(t.Context())
	wantCheck(t, got, Warn, "pieces of logs are missing: g1_log_gap (1, the first: ")
	if !strings.Contains(got.Hint, "after a failover") || !strings.Contains(got.Hint, "timeline 2") {
		t.Errorf("it does not say why: %s", got.Hint)
	}
	execOn(t, standby.URL(), "succeeded_twice.sql")
	got = x.invariants(t.Context())
	wantCheck(t, got, Fail, "broken: ")
	for _, name := range []string{"g1_log_gap", "s1_succeeded_twice"} {
		if !strings.Contains(got.Detail, name) {
			t.Errorf("%s is not in %s", name, got.Detail)
		}
	}
}

func execOn(t *testing.T, address, name string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	execFile(t, conn, name)
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestBreaches_AreJudgedByWhatTheServerSaysOfItsPast(t *testing.T) {
	t.Parallel()
	on := func(line int, err error) func() (int, error) { return func() (int, error) { return line, err } }
	gap, end, other := breach{"invariants/g1_log_gap", 3, "x"}, breach{"invariants/g2_after_the_last", 1, "y"}, breach{"invariants/s8_two_running", 1, "z"}
	over := breach{"invariants/s6_passed_over", 2, "w"}
	for name, c := range map[string]struct {
		broken []breach
		line   func() (int, error)
		status Status
		words  string
	}{
		"first timeline":   {[]breach{gap}, on(1, nil), Fail, "never failed over: g1_log_gap (3, the first: x)"},
		"later timeline":   {[]breach{gap, end}, on(3, nil), Warn, "pieces of logs are missing: g1_log_gap (3, the first: x); g2_after_the_last (1, the first: y)"},
		"unknown timeline": {[]breach{end}, on(0, errors.New("may not")), Warn, "pieces of logs are missing"},
		"passed over":      {[]breach{over}, on(1, nil), Warn, "2 runs were due for a minute, although workers had free slots; the first run: w"},
		"and a gap":        {[]breach{over, gap}, on(1, nil), Fail, "never failed over: g1_log_gap (3, the first: x); 2 runs were due"},
		"and a fault":      {[]breach{over, other}, on(1, nil), Fail, "broken: s8_two_running (1, the first: z); 2 runs were due"},
		"a fault beside":   {[]breach{gap, other}, on(3, nil), Fail, "broken: g1_log_gap (3, the first: x); s8_two_running (1, the first: z)"},
	} {
		got := judgeBreaches(c.broken, c.line)
		if got.Status != c.status || !strings.Contains(got.Detail, c.words) || got.Hint == "" {
			t.Errorf("%s: got %+v, want %s with %q", name, got, c.status, c.words)
		}
	}
}
