package doctor

import (
	"os"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

// The statement on the operations page starts these runs, and does not touch a run that is meant to start later.
func TestFutureRuns_StartNowByWhatThePageSays(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	page, err := os.ReadFile("../../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	typed := regexp.MustCompile("(?s)## The database's clock was wrong.*?```sql\n(.*?)```").FindSubmatch(page)
	if typed == nil {
		t.Fatal("the page says nothing to type")
	}
	db := pgtest.New(t)
	execFile(t, db.Conn(t), "future_runs.sql")
	owner, err := pgx.Connect(t.Context(), db.Login(t, "oarlock_owner"))
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close(t.Context())
	done, err := owner.Exec(t.Context(), string(typed[1]))
	if err != nil || done.RowsAffected() != 1 {
		t.Fatalf("%s, %v; want 1 run changed", done, err)
	}
	wantCheck(t, begin(t, db.URL).futureRuns(t.Context()), OK, "no run has a time of acceptance in the future")
}
