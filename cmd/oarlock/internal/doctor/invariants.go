package doctor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/sql"
)

const (
	invariantsFolder = "invariants/"
	secondLook       = time.Second // pause before the second look, which drops rows that were only half visible in the first
)

// gaps are the invariants about logs. A failover may lose the last pieces of a log together with other last commits, and
// docs/internals/promises.md promises no more.
var gaps = []string{invariantsFolder + "g1_log_gap", invariantsFolder + "g2_after_the_last"}

// passedOver is not a fault by itself. A worker that was cut off or unfit has room again at once, and claims the waiting
// runs a moment later. No row tells how long the worker was away.
const passedOver = invariantsFolder + "s6_passed_over"

var timelineSQL = sql.Named("doctor/timeline")

// invariantNames lists the statements of invariants. Each returns no rows as long as its invariant holds.
func invariantNames() []string {
	return slices.DeleteFunc(sql.Names(), func(name string) bool { return !strings.HasPrefix(name, invariantsFolder) })
}

// invariants checks the rules that must always hold of runs, each by a statement that returns the rows that break the rule. A row
// counts only if a second look finds it too. If the time is up, invariants reports the broken rules found so far; if there are none
// yet, the check is skipped.
func (x *examination) invariants(ctx context.Context) Check {
	err := migrations.Check(ctx, x.conn)
	if c := unseen(err); c != nil {
		return *c
	}
	if err != nil {
		return skip("%s", Explain(err))
	}
	names := invariantNames()
	var broken []breach
	for i, name := range names {
		rows, err := x.brokenTwice(ctx, name)
		switch {
		case ctx.Err() != nil && len(broken) > 0:
			return x.judge(ctx, broken)
		case ctx.Err() != nil:
			return skip("%d of %d rules hold; the check of the other rules took longer than %s", i, len(names), checkTimeout)
		case mayNot(err):
			return *unseen(err)
		case err != nil:
			return skip("%s: %s", strings.TrimPrefix(name, invariantsFolder), Explain(err))
		case len(rows) > 0:
			broken = append(broken, breach{name, len(rows), rows[0]})
		}
	}
	if len(broken) == 0 {
		return ok("all %d rules hold", len(names))
	}
	return x.judge(ctx, broken)
}

// judge returns the result of judgeBreaches for broken invariants. It lets the timeline be read with a timeout of its own, so that
// violations are reported even when the checks used up theirs.
func (x *examination) judge(ctx context.Context, broken []breach) Check {
	return judgeBreaches(broken, func() (timeline int, err error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
		defer cancel()
		err = x.conn.QueryRow(ctx, timelineSQL).Scan(&timeline)
		return timeline, err
	})
}

// breach is an invariant that does not hold.
type breach struct {
	name  string
	rows  int
	first string
}

func (b breach) String() string {
	return fmt.Sprintf("%s (%d, the first: %s)", strings.TrimPrefix(b.name, invariantsFolder), b.rows, b.first)
}

// judgeBreaches returns the result for broken invariants; broken must not be empty.
//
// Runs that are passed over give a warning. So do missing pieces of logs, since a failover may lose some. But missing pieces are a
// failure on a server on its first timeline, which never failed over and was never recovered to a point in time. Any other breach
// is a failure. timeline reads the number of the server's timeline; judgeBreaches calls it only if pieces are missing and no other
// fault is there.
func judgeBreaches(broken []breach, timeline func() (int, error)) Check {
	i := slices.IndexFunc(broken, func(b breach) bool { return b.name == passedOver })
	if i < 0 {
		return judgeFaults(broken, timeline)
	}
	c := broken[i].waits()
	if rest := slices.Delete(slices.Clone(broken), i, i+1); len(rest) > 0 {
		return inOne([]Check{judgeFaults(rest, timeline), c})
	}
	return c
}

// waits returns the warning for a breach of the invariant passedOver: runs are due although workers have room.
func (b breach) waits() Check {
	return warn("%s due for a minute, although workers had free slots; the first run: %s", countRuns(b.rows, math.MaxInt, "was", "were"), b.first).
		withHint("expect this warning for a moment after workers were cut off from the database. If the warning lasts for minutes, report it with the output of `oarlock status RUN` and `oarlock workers`")
}

func judgeFaults(broken []breach, timeline func() (int, error)) Check {
	const fault = "a run was changed in a way that must not happen: report this run with the output of `oarlock events RUN`"
	texts := make([]string, len(broken))
	for i, b := range broken {
		texts[i] = b.String()
	}
	all := strings.Join(texts, "; ")
	if slices.ContainsFunc(broken, func(b breach) bool { return !slices.Contains(gaps, b.name) }) {
		return fail("broken: %s", all).withHint(fault)
	}
	line, err := timeline()
	switch {
	case err != nil:
		return warn("pieces of logs are missing: %s", all).
			withHint("missing pieces of logs are normal after a failover or a recovery that lost commits; report missing pieces if this server never had a failover or a recovery. The check could not read the server's timeline: %s", Explain(err))
	case line <= 1:
		return fail("pieces of logs are missing, and this server never failed over: %s", all).withHint(fault)
	}
	return warn("pieces of logs are missing: %s", all).
		withHint("missing pieces of logs are normal after a failover or a recovery that lost commits (this server is on timeline %d): you need not do anything. `oarlock prune` deletes the logs of these days once the logs are past their retention", line)
}

// brokenTwice looks for rows that break an invariant, waits for secondLook, and looks again. It returns the rows that both looks
// found, each as text. It does not wait if the first look finds none.
func (x *examination) brokenTwice(ctx context.Context, name string) ([]string, error) {
	first, err := x.brokenBy(ctx, name)
	if err != nil || len(first) == 0 {
		return nil, err
	}
	timer := time.NewTimer(secondLook)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	second, err := x.brokenBy(ctx, name)
	return slices.DeleteFunc(second, func(row string) bool { return !slices.Contains(first, row) }), err
}

func (x *examination) brokenBy(ctx context.Context, name string) ([]string, error) {
	rows, err := x.conn.Query(ctx, sql.Named(name))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		values, err := pgx.RowToMap(row)
		return strings.TrimPrefix(fmt.Sprint(values), "map"), err
	})
}
