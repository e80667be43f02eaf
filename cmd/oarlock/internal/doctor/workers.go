package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/sql"
)

// Bounds of the workers check.
const (
	mostDue   = 100_000 // bound of counted runs
	mostNames = 5       // workers that the check names for each trouble
)

var (
	atWorkSQL = sql.Named("doctor/at_work")
	unfitSQL  = sql.Named("doctor/unfit")
	silentSQL = sql.Named("doctor/silent")
)

// atWork has the ids of the workers at work, live or draining, and counts the runs that are due.
type atWork struct {
	Workers []string
	Due     int
}

// unfit is a worker that reports why it claims nothing.
type unfit struct {
	Name    string
	Why     string
	Seconds float64
}

func (u unfit) String() string { return u.Name + " for " + round(seconds(u.Seconds)) }

// silent is a worker at work that gives no sign of life. Once its lease is over, another live worker marks it lost within
// seconds.
type silent struct {
	Name     string
	Seconds  float64
	Lease    float64
	Runs     int      // runs that it holds
	Takeover *float64 // seconds until other workers take over its runs, roughly; nil: no other worker is there to do so
}

func (s silent) String() string {
	return fmt.Sprintf("%s for %s (lease %s)", s.Name, round(seconds(s.Seconds)), round(seconds(s.Lease)))
}

// fleet is what the check knows about the workers at work.
type fleet struct {
	workers []string
	due     int
	unfit   []unfit
	silent  []silent
}

// workers fails or warns if workers at work claim nothing or give no sign of life, and warns if runs are due and no worker is at
// work. If workers are silent and the database may be a copy, the result advises to decide that first.
func (x *examination) workers(ctx context.Context) Check {
	f, err := x.fleet(ctx)
	if c := unseen(err); c != nil {
		return *c
	}
	if err != nil {
		return skip("%s", Explain(err))
	}
	c := f.judge()
	if c.Status != OK && len(f.silent) > 0 {
		return x.inPlace(ctx, c)
	}
	return c
}

func (x *examination) fleet(ctx context.Context) (f fleet, err error) {
	if err := migrations.Check(ctx, x.conn); err != nil {
		return f, err
	}
	there, err := one[atWork](ctx, x.conn, atWorkSQL, mostDue)
	if err != nil {
		return f, err
	}
	f.workers, f.due = there.Workers, there.Due
	if f.unfit, err = all[unfit](ctx, x.conn, unfitSQL); err != nil {
		return f, err
	}
	f.silent, err = all[silent](ctx, x.conn, silentSQL)
	return f, err
}

// judge returns the result of the check. It joins every kind of trouble into one, because one may cause another. If no worker is at
// work, a user may have stopped them all, so due runs are only a warning. A worker that has not ended is meant to run, so its
// silence is a trouble once its lease is over, and before that if it holds runs or if no worker gives a sign of life while runs are
// due.
func (f fleet) judge() Check {
	due := countRuns(f.due, mostDue, "is due", "are due")
	if len(f.workers) == 0 {
		if f.due > 0 {
			return warn("no worker is at work, and %s", due).withHint("start a worker with `oarlock worker`")
		}
		return ok("no worker is at work, and no run is due")
	}
	var troubles []Check
	dead := f.due > 0 && len(f.silent) == len(f.workers)
	if dead {
		troubles = append(troubles, fail("no worker at work gives a sign of life, and %s", due).withHint(startAgain))
	}
	var lost, quiet []silent
	for _, s := range f.silent {
		switch {
		case s.Seconds > s.Lease:
			lost = append(lost, s)
		case s.Runs > 0 || dead:
			quiet = append(quiet, s)
		}
	}
	if len(lost) > 0 {
		troubles = append(troubles, checkLost(lost))
	}
	if len(quiet) > 0 {
		troubles = append(troubles, checkQuiet(quiet))
	}
	if len(f.unfit) > 0 {
		troubles = append(troubles, checkUnfit(f.unfit))
	}
	if len(troubles) == 0 {
		return ok("no worker at work reports a reason to claim nothing")
	}
	return inOne(troubles)
}

// startAgain is the advice if no worker takes over: the workers either are gone, or run and cannot reach the database.
const startAgain = "no other worker can take over the runs: start the silent worker again on its host, or start another worker with `oarlock worker`. " +
	"If the silent worker still runs, read the log of the worker: perhaps the database refuses the worker's login"

// checkLost returns the result for silent workers with a lease that is over: a failure if they hold runs, otherwise a warning. lost
// must not be empty.
func checkLost(lost []silent) Check {
	judge, runs := warn, held(lost)
	if runs > 0 {
		judge = fail
	}
	c := judge("%d of the workers at work gave no sign of life for longer than their lease, %s; runs that they hold: %d", len(lost), list(lost), runs)
	if lost[0].Takeover != nil {
		return c.withHint("other workers take over the runs of the silent workers soon; time in which the other workers had no database does not count. Check the hosts and processes of the silent workers")
	}
	return c.withHint(startAgain)
}

// checkQuiet warns about silent workers with a lease that is not over yet, and says what will happen to their runs. quiet must not
// be empty.
func checkQuiet(quiet []silent) Check {
	c := warn("%d of the workers at work give no sign of life, %s; runs that they hold: %d", len(quiet), list(quiet), held(quiet))
	if first := quiet[0]; first.Takeover != nil {
		return c.withHint("other workers take over the runs of %s in about %s. If you start this worker again on its host, the worker takes its runs at once", first.Name, round(seconds(*first.Takeover)))
	}
	return c.withHint(startAgain)
}

func checkUnfit(all []unfit) Check {
	var reasons []string
	for _, u := range all {
		if !slices.Contains(reasons, u.Why) {
			reasons = append(reasons, u.Why)
		}
	}
	return fail("%d of the workers at work claim nothing, %s: %s", len(all), list(all), strings.Join(reasons[:min(len(reasons), mostNames)], "; ")).
		withHint("correct the cause in the message: then the workers claim runs again by themselves. The logs of the workers show the error, and `oarlock workers` lists the workers")
}

// inOne joins warnings and failures into one check, which fails if one of them failed. It has all details, and each hint once.
func inOne(several []Check) Check {
	one := Check{Status: Warn}
	var details, hints []string
	for _, c := range several {
		if c.Status == Fail {
			one.Status = Fail
		}
		details = append(details, c.Detail)
		if !slices.Contains(hints, c.Hint) {
			hints = append(hints, c.Hint)
		}
	}
	one.Detail, one.Hint = strings.Join(details, "; "), strings.Join(hints, "; ")
	return one
}

func held(by []silent) (runs int) {
	for _, s := range by {
		runs += s.Runs
	}
	return runs
}

// list joins the texts of the first mostNames elements with commas, and adds how many more there are.
func list[T fmt.Stringer](all []T) string {
	var texts []string
	for _, one := range all[:min(len(all), mostNames)] {
		texts = append(texts, one.String())
	}
	text := strings.Join(texts, ", ")
	if more := len(all) - mostNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// inPlace returns c with another hint if the database may be a copy, and otherwise unchanged. In a copy the silent workers are the
// original's, and a new worker would refuse to start, so hints about workers would mislead.
func (x *examination) inPlace(ctx context.Context, c Check) Check {
	i, err := migrations.ReadInstallation(ctx, x.conn)
	if err == nil && i.Judge(false) != nil {
		return c.withHint("first decide whether this database is a copy: read the result of the check installation")
	}
	return c
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
