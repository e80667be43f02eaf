package doctor

import (
	"testing"

	"github.com/oarlock-dev/oarlock/internal/pgtest"
)

func TestPooler_TellsTheModes(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	cases := map[string]struct {
		sessions bool
		size     int
		status   Status
		words    string
	}{
		"transaction mode":        {false, 3, Warn, "a pooler in transaction mode"},
		"transaction mode of one": {false, 1, Warn, "a pooler in transaction mode"},
		"session mode":            {true, 3, OK, "a pooler in session mode"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := begin(t, pgtest.Pooled(t, pgtest.New(t).URL, c.size, c.sessions))
			wantCheck(t, x.check(t.Context(), namedCheck{"pooler", (*examination).pooler}), c.status, c.words)
			if x.sharesBackends == c.sessions {
				t.Errorf("shares backends: %v", x.sharesBackends)
			}
			if x.sharesBackends {
				wantCheck(t, x.listen(t.Context()), Skip, "pooler")
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
