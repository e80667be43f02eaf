package doctor

import (
	"context"
	"time"

	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/sql"
)

// Bounds of what is compared of time zones.
const (
	maxZones  = 20
	zonesSpan = 365 * 24 * time.Hour
)

var (
	schedulesSQL = sql.Named("doctor/schedules")
	zonesSQL     = sql.Named("doctor/zones")
)

// ailing is the first schedule with which something is wrong.
type ailing struct {
	DAG       string `db:"dag"`
	Schedule  string
	Trouble   string // failed, overdue, refused
	Why       string
	Late      float64 // seconds
	Schedules int     // that something is wrong with
}

// change is a moment from which on the server has another offset of a zone.
type change struct {
	Zone  string
	At    time.Time
	Ahead int // seconds
}

// schedules asks whether schedules fire, and whether this machine and the server agree on when.
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
		return found[0].check()
	}
	if zone, at, differs := firstDifference(changes, from); differs {
		return warn("this machine and the server disagree on the time zone %s from %s on", zone, at.Format(time.RFC3339)).
			withHint("schedules fire by the server's data: upgrade the time zone data (tzdata) of whichever of the two is older, and restart the server if it is that")
	}
	return ok("none failed, was refused or is overdue, and time zones agree for a year")
}

func (a ailing) check() Check {
	switch a.Trouble {
	case "failed":
		return warn("the times of schedule %s of %s cannot be decided: %s; schedules in trouble: %d", a.Schedule, a.DAG, a.Why, a.Schedules).
			withHint("mend what it says: it is tried again by itself; `oarlock schedules` lists all")
	case "refused":
		return warn("the latest time of schedule %s of %s made no run: %s; schedules in trouble: %d", a.Schedule, a.DAG, a.Why, a.Schedules).
			withHint("change the schedule or its DAG, then `oarlock schedules trigger` makes up for it")
	}
	return warn("schedule %s of %s should have fired %s ago, and a worker is live; schedules in trouble: %d", a.Schedule, a.DAG, round(seconds(a.Late)), a.Schedules).
		withHint("see the logs of the workers: one of them attends to schedules once a second")
}

// firstDifference finds the first hour at which this machine has another offset than the server, which told of its changes. A zone
// that is not known here differs from the beginning.
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
