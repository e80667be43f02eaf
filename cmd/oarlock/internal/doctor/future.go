package doctor

import (
	"context"
	"time"

	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/sql"
)

// mostFuture bounds how many future runs are counted.
const mostFuture = 100_000

var futureRunsSQL = sql.Named("doctor/future_runs")

type futureRuns struct {
	Runs        int
	First, Last time.Time
}

// futureRuns warns of runs that the server accepted while its clock was ahead. These runs start only when the clock reaches that
// time again.
func (x *examination) futureRuns(ctx context.Context) Check {
	err := migrations.Check(ctx, x.conn)
	var found futureRuns
	if err == nil {
		found, err = one[futureRuns](ctx, x.conn, futureRunsSQL, mostFuture)
	}
	if c := unseen(err); c != nil {
		return *c
	}
	switch {
	case err != nil:
		return skip("%s", Explain(err))
	case found.Runs == 0:
		return ok("no run has a time of acceptance in the future")
	}
	return found.judge()
}

func (f futureRuns) judge() Check {
	const format = "2006-01-02T15:04:05Z"
	when := f.First.UTC().Format(format)
	if last := f.Last.UTC().Format(format); last != when {
		when += " to " + last
	}
	return warn("%s only at %s, later than asked for: the server's clock was ahead at the time of each request", countRuns(f.Runs, mostFuture, "starts", "start"), when).
		withHint(`start these runs now, as docs/operations.md says under "The database's clock was wrong"; or let these runs start at that time`)
}
