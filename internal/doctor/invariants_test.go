package doctor

import (
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/internal/pgtest"
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
