package doctor

import (
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/internal/pglink"
)

func TestPooler_TellsTheModes(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	cases := map[string]struct {
		sessions bool
		size     int
		status   Status
		words    string
		shares   bool
	}{
		"transaction mode":        {false, 3, Warn, "the pooler is in transaction mode", true},
		"transaction mode of one": {false, 1, Warn, "the pooler is in transaction mode", true},
		"session mode":            {true, 9, OK, "the pooler is in session mode, and lends the 9", false},
		"session mode of four":    {true, 4, Warn, "the pooler is in session mode, and lends only 4 connections: a worker needs 9", false},
		"session mode of one":     {true, 1, Warn, "the pooler is in session mode, and lends only 1 connections", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := begin(t, pgtest.Pooled(t, pgtest.New(t).URL, c.size, c.sessions))
			got := x.check(t.Context(), namedCheck{name: "pooler", run: (*examination).pooler})
			wantCheck(t, got, c.status, c.words)
			if x.sharesBackends != c.shares {
				t.Errorf("shares backends: %v", x.sharesBackends)
			}
			if x.sharesBackends {
				wantCheck(t, x.listen(t.Context()), Skip, "pooler")
			}
			if c.status == Warn && !strings.Contains(got.Hint, "pool_mode = session") && got.Hint != "to start one worker, "+pglink.WorkerPoolHint(9) {
				t.Errorf("%q is no line for the pooler's file", got.Hint)
			}
		})
	}
}

// The modes of a real PgBouncer are recognised, also where it lends its connections in turn.
func TestPooler_TellsTheModesOfPgBouncer(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	for name, c := range map[string]struct {
		pooler pgtest.PgBouncer
		status Status
		words  string
	}{
		"session":     {pgtest.PgBouncer{}, OK, "session mode"},
		"transaction": {pgtest.PgBouncer{Mode: "transaction"}, Warn, "transaction mode"},
		"by turns":    {pgtest.PgBouncer{Mode: "transaction", Size: 2, Lines: []string{"server_round_robin = 1"}}, Warn, "transaction mode"},
		"statement":   {pgtest.PgBouncer{Mode: "statement"}, Warn, "transaction mode"},
		"too small":   {pgtest.PgBouncer{Size: 4}, Warn, "lends only 4 connections"},
		"full":        {pgtest.PgBouncer{Lines: []string{"max_client_conn = 4"}}, Warn, "no more connections allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := begin(t, c.pooler.Start(t, pgtest.New(t).URL))
			got := x.check(t.Context(), namedCheck{name: "pooler", run: (*examination).pooler})
			wantCheck(t, got, c.status, c.words)
			if name == "full" && !strings.Contains(got.Hint, "max_client_conn = ") {
				t.Errorf("%q is no line for a pooler that is full", got.Hint)
			}
		})
	}
}

func TestRun_WorksThroughATransactionPooler(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	report, err := Run(t.Context(), pgtest.Pooled(t, pgtest.New(t).URL, 2, false), quiet)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range report.Checks {
		if c.Status == Fail && c.Name != "durability" {
			t.Errorf("%+v", c)
		}
	}
}
