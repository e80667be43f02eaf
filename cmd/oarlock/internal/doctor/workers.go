package doctor

import (
	"context"
	"time"

	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/sql"
)

var (
	unfitSQL  = sql.Named("doctor/unfit")
	silentSQL = sql.Named("doctor/silent")
)

// unfit are workers that say why they claim nothing.
type unfit struct {
	AtWork  int  // whether they claim or not
	IsDue   bool // a run is due and waits
	Workers int
	First   string // name of the one that has said so for longest
	Why     string
	Seconds float64
}

// silent are workers that count as at work and gave no sign of life for longer than their lease. Another worker that is live finds them
// lost within seconds.
type silent struct {
	Workers int
	First   string // name of the one that has been silent for longest
	Runs    int    // that they hold
	Seconds float64
	Lease   float64 // of the first
}

// workers asks whether workers at work claim runs, and are there.
func (x *examination) workers(ctx context.Context) Check {
	err := migrations.Check(ctx, x.conn)
	var found unfit
	if err == nil {
		found, err = one[unfit](ctx, x.conn, unfitSQL)
	}
	var lost silent
	if err == nil {
		lost, err = one[silent](ctx, x.conn, silentSQL)
	}
	if c := unseen(err); c != nil {
		return *c
	}
	switch {
	case err != nil:
		return skip("%s", Explain(err))
	case lost.Workers > 0 && (lost.Runs > 0 || found.Workers == 0):
		return lost.check()
	case found.AtWork == 0 && found.IsDue:
		return warn("no worker is at work, and runs are due").withHint("start one with `oarlock worker`")
	case found.AtWork == 0:
		return ok("no worker is at work, and no run is due")
	case found.Workers == 0:
		return ok("no worker at work is unfit")
	}
	return fail("%d of the workers at work claim nothing, %s for %s: %s", found.Workers, found.First, round(seconds(found.Seconds)), found.Why).
		withHint("mend that: they go on by themselves then; their logs have the error, and `oarlock workers` lists them")
}

// check fails where runs wait for the worker.
func (s silent) check() Check {
	judge := warn
	if s.Runs > 0 {
		judge = fail
	}
	return judge("%d of the workers at work gave no sign of life for longer than their lease, %s for %s (lease %s); runs that they hold: %d",
		s.Workers, s.First, round(seconds(s.Seconds)), round(seconds(s.Lease)), s.Runs).
		withHint("start a worker: it finds them lost, and their runs go on; then see whether their hosts and processes are there")
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
