package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/sql"
)

// Bounds of the comparison of time zones.
const (
	maxZones  = 20
	zonesSpan = 365 * 24 * time.Hour
)

var (
	schedulesSQL = sql.Named("doctor/schedules")
	zonesSQL     = sql.Named("doctor/zones")
)

// ailing is a schedule that does not fire as it should.
type ailing struct {
	DAG       string `db:"dag"`
	Schedule  string
	Trouble   string // failed, overdue, refused
	Why       string
	At        time.Time // for refused: the time that was refused
	Late      float64   // seconds
	Schedules int       // how many schedules have a trouble
	Attended  bool      // a worker is live, so due times should be decided
}

// change is a moment at which the server changes the offset of a time zone.
type change struct {
	Zone  string
	At    time.Time
	Ahead int // seconds
}

// schedules fails if a schedule is overdue. It warns if the times of a schedule cannot be decided, if its latest time was refused,
// or if this machine and the server disagree on the time zone of a schedule within the next year.
func (x *examination) schedules(ctx context.Context) Check {
	from := time.Now().UTC().Truncate(time.Hour)
	err := migrations.Check(ctx, x.conn)
	var found []ailing
	if err == nil {
		found, err = all[ailing](ctx, x.conn, schedulesSQL)
	}
	var changes []change
	if err == nil {
		changes, err = all[change](ctx, x.conn, zonesSQL, from, from.Add(zonesSpan), maxZones)
	}
	if c := unseen(err); c != nil {
		return *c
	}
	switch {
	case err != nil:
		return skip("%s", Explain(err))
	case len(found) > 0:
		return ailingCheck(found)
	}
	if zone, at, differs := firstDifference(changes, from); differs {
		return warn("this machine and the server show different times in the time zone %s from %s on", zone, at.Format(time.RFC3339)).
			withHint("schedules fire by the server's time zone data. Upgrade the time zone data (tzdata) on this machine or on the server, where the data is older; after an upgrade on the server, restart the server")
	}
	return ok("no schedule failed, was refused or is overdue, and this machine and the server agree on time zones for a year")
}

// ailingCheck fails if the first ailing schedule is overdue, and otherwise warns. It describes that schedule in full and names the
// others that were read. found must not be empty.
func ailingCheck(found []ailing) Check {
	a, more := found[0], ""
	if a.Schedules > 1 {
		var names []string
		for _, other := range found {
			names = append(names, other.Schedule+" of "+other.DAG)
		}
		more = fmt.Sprintf("; schedules in trouble: %d, among them %s", a.Schedules, strings.Join(names, ", "))
	}
	switch {
	case a.Trouble == "failed":
		return warn("the times of schedule %s of %s cannot be decided: %s%s", a.Schedule, a.DAG, a.Why, more).
			withHint("correct the cause: workers try again by themselves; `oarlock schedules` lists all schedules")
	case a.Trouble == "refused":
		return warn("the latest time of schedule %s of %s made no run: %s%s", a.Schedule, a.DAG, a.Why, more).
			withHint("correct the cause in the schedule or its DAG, then start the run of that time: `oarlock schedules trigger %s %s --at %s`",
				shellWord(a.DAG), shellWord(a.Schedule), a.At.UTC().Format(time.RFC3339Nano))
	case !a.Attended:
		return fail("no worker is live, and schedule %s of %s should have fired %s ago%s", a.Schedule, a.DAG, round(seconds(a.Late)), more).
			withHint("start a worker, because live workers fire schedules: `oarlock worker`")
	}
	return fail("schedule %s of %s should have fired %s ago, and a worker is live%s", a.Schedule, a.DAG, round(seconds(a.Late)), more).
		withHint("search the logs of all live workers for warnings with the words `what is due`: each worker looks for due schedules once a second")
}

// shellWord returns a word in single quotes if it has any other character than letters, digits, "_", "-" and ".", and otherwise
// unchanged.
func shellWord(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// firstDifference returns the first zone, and its first hour, for which this machine and the server have different offsets. changes
// are the server's, ordered by zone and time, in the span that begins at from. A zone that this machine does not know differs from
// the beginning. If all agree, differs is false.
func firstDifference(changes []change, from time.Time) (zone string, at time.Time, differs bool) {
	for i, c := range changes {
		location, err := time.LoadLocation(c.Zone)
		if err != nil {
			return c.Zone, from, true
		}
		until := from.Add(zonesSpan)
		if i+1 < len(changes) && changes[i+1].Zone == c.Zone {
			until = changes[i+1].At
		}
		for at := c.At; at.Before(until); at = at.Add(time.Hour) {
			if _, ahead := at.In(location).Zone(); ahead != c.Ahead {
				return c.Zone, at.UTC(), true
			}
		}
	}
	return "", time.Time{}, false
}
