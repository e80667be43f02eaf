package doctor

import (
	"context"
	"slices"
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

// silent is a worker that counts as at work and gives no sign of life. Once its lease is over, another worker that is live finds it lost
// within seconds.
type silent struct {
	Name     string
	Seconds  float64
	Lease    float64
	Runs     int      // that it holds
	Takeover *float64 // seconds until others have taken them over, at the latest; nil: no other worker is there
}

// workers asks whether workers at work claim runs, and are there.
func (x *examination) workers(ctx context.Context) Check {
	err := migrations.Check(ctx, x.conn)
	var found unfit
	if err == nil {
		found, err = one[unfit](ctx, x.conn, unfitSQL)
	}
	var quiet []silent
	if err == nil {
		quiet, err = all[silent](ctx, x.conn, silentSQL)
	}
	if c := unseen(err); c != nil {
		return *c
	}
	if err != nil {
		return skip("%s", Explain(err))
	}
	lost, runsOfLost := overdue(quiet)
	holders := slices.DeleteFunc(slices.Clone(quiet), func(s silent) bool { return s.Runs == 0 })
	switch {
	case len(lost) > 0 && (runsOfLost > 0 || found.Workers == 0):
		return x.inPlace(ctx, checkLost(lost, runsOfLost))
	case len(holders) > 0 && found.Workers == 0:
		return x.inPlace(ctx, checkQuiet(holders))
	case len(quiet) > 0 && len(quiet) == found.AtWork && found.IsDue:
		return x.inPlace(ctx, warn("no worker at work gives a sign of life, and runs are due").withHint("start one with `oarlock worker`"))
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

// overdue are those whose lease is over, and how many runs they hold.
func overdue(quiet []silent) (lost []silent, runs int) {
	for _, s := range quiet {
		if s.Seconds > s.Lease {
			lost, runs = append(lost, s), runs+s.Runs
		}
	}
	return lost, runs
}

// checkLost fails where runs wait for the workers.
func checkLost(lost []silent, runs int) Check {
	judge, first := warn, lost[0]
	if runs > 0 {
		judge = fail
	}
	c := judge("%d of the workers at work gave no sign of life for longer than their lease, %s for %s (lease %s); runs that they hold: %d",
		len(lost), first.Name, round(seconds(first.Seconds)), round(seconds(first.Lease)), runs)
	if first.Takeover != nil {
		return c.withHint("others are to find them lost now, and their runs go on; see whether their hosts and processes are there")
	}
	return c.withHint("start a worker: it finds them lost, and their runs go on; then see whether their hosts and processes are there")
}

// checkQuiet says what becomes of runs whose workers give no sign of life, in time to do something before their lease is over.
func checkQuiet(holders []silent) Check {
	first, runs := holders[0], 0
	for _, s := range holders {
		runs += s.Runs
	}
	c := warn("%d of the workers at work give no sign of life, %s for %s (lease %s); runs that they hold: %d",
		len(holders), first.Name, round(seconds(first.Seconds)), round(seconds(first.Lease)), runs)
	if first.Takeover == nil {
		return c.withHint("no other worker is there to take them over: start %s again on its host, or another", first.Name)
	}
	return c.withHint("others take over the runs of %s in %s at the latest; one that starts again on its host does so at once", first.Name, round(seconds(*first.Takeover)))
}

// inPlace hints at nothing about workers where the database may be a copy: they are the original's, and to start one is refused.
func (x *examination) inPlace(ctx context.Context, c Check) Check {
	i, err := migrations.ReadInstallation(ctx, x.conn)
	if err == nil && i.Judge(false) != nil {
		return c.withHint("say first what this database is: see installation")
	}
	return c
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
