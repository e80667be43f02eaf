package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

func TestFutureRuns_AreThoseThatAClockPutOff(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	db := pgtest.New(t)
	x := begin(t, db.URL)
	wantCheck(t, x.futureRuns(t.Context()), OK, "no run has a time of acceptance in the future")
	execFile(t, db.Conn(t), "future_runs.sql")
	got := x.futureRuns(t.Context())
	wantCheck(t, got, Warn, "1 run starts only at ")
	if !strings.Contains(got.Detail, "later than asked for") {
		t.Errorf("got %s", got.Detail)
	}
	wantCheck(t, begin(t, db.Login(t, "oarlock_submit")).futureRuns(t.Context()), Skip, "no right to see runs of other users")
}

func TestFutureRuns_SayHowManyAndWhen(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 24, 15, 58, 0, 0, time.UTC)
	wantCheck(t, futureRuns{1, at, at}.judge(), Warn, "1 run starts only at 2026-11-24T15:58:00Z, later")
	wantCheck(t, futureRuns{2, at, at.Add(time.Minute)}.judge(), Warn, "2 runs start only at 2026-11-24T15:58:00Z to 2026-11-24T15:59:00Z, later")
	wantCheck(t, futureRuns{mostFuture, at, at}.judge(), Warn, "100000+ runs start")
}
