package runview

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// States of schedules that do not fire.
const (
	NeverFires = "never fires from now on"
	DAGRemoved = "DAG removed"
)

// ReprocessWords are the values that select which times of a backfill fire.
var ReprocessWords = []string{"missing", "failed", "all"}

// TimingText returns the timing of a schedule in the words of its file: "cron 30 3 * * *", "at …" or "every 10m".
func TimingText(s *dagspec.Schedule) string {
	switch {
	case s.Cron != "":
		return "cron " + strings.Join(strings.Fields(s.Cron), " ")
	case s.At != "":
		return "at " + s.At
	}
	return "every " + s.Every.String()
}

// ScheduleState returns the state of a schedule as one word, the first one that holds: removed, paused, failed (the last tries to
// decide a fire time failed), over (it never fires again), refused (its last fire time was refused), or else active.
func ScheduleState(s *queue.Schedule) string {
	switch {
	case s.Removed:
		return "removed"
	case s.PausedBy != "":
		return "paused"
	case s.Errors > 0:
		return "failed"
	case s.NextAt.IsZero() && s.HeldFrom.IsZero():
		return "over"
	case s.Last.Outcome == "refused":
		return "refused"
	}
	return "active"
}

// WaitsSince returns "waits since" and the time from which a schedule is held back, in its zone but without the name of the zone.
func WaitsSince(s *queue.Schedule) string {
	return "waits since " + WallTime(s.HeldFrom, s.Timezone)
}

// FromNow returns the time until a moment, such as "in 14h07m". It returns "due" for a moment that has passed.
func FromNow(t, now time.Time) string {
	if t.After(now) {
		return "in " + Span(t.Sub(now))
	}
	return "due"
}

// FiresNext returns when a schedule fires next: fires next 2026-11-28 03:30 Europe/Paris, in 14h07m. If it does not fire, or has to
// wait, FiresNext returns the reason. For a backfill it returns GoesOnFrom.
func FiresNext(s *queue.Schedule, now time.Time) string {
	switch {
	case s.Removed:
		return "fires nothing: its DAG was removed"
	case s.PausedBy != "":
		return "is paused by " + InlineText(s.PausedBy)
	case !s.HeldFrom.IsZero() && s.Unfinished > 0:
		return fmt.Sprintf("%s %s, for the end of %s", WaitsSince(s), s.Timezone, Count(s.Unfinished, "run"))
	case !s.HeldFrom.IsZero():
		return WaitsSince(s) + " " + s.Timezone
	case s.NextAt.IsZero():
		return NeverFires
	case s.Backfill != nil:
		return GoesOnFrom(s)
	}
	return fmt.Sprintf("fires next %s %s, %s", WallTime(s.NextAt, s.Timezone), s.Timezone, FromNow(s.NextAt, now))
}

// GoesOnFrom returns where a backfill continues, such as "goes on after" or "goes back before" and a time with its zone. s.Backfill
// must not be nil.
func GoesOnFrom(s *queue.Schedule) string {
	b := s.Backfill
	verb, at := "goes on after", b.DecidedAt
	switch {
	case b.NewestFirst && b.DecidedAt.Equal(b.Until):
		verb = "goes back from"
	case b.NewestFirst:
		verb = "goes back before"
	case b.DecidedAt.Before(b.From):
		verb, at = "goes on from", b.From
	}
	return fmt.Sprintf("%s %s %s", verb, WallTime(at.Truncate(time.Second), s.Timezone), s.Timezone)
}

// DecidedShare returns the share of a backfill's span in which the fire times are decided, from 0 to 1.
func DecidedShare(b *queue.BackfillState) float64 {
	decided := b.DecidedAt.Sub(b.From)
	if b.NewestFirst {
		decided = b.Until.Sub(b.DecidedAt)
	}
	return min(1, max(0, decided.Seconds()/b.Until.Sub(b.From).Seconds()))
}

// OverlapText returns what a schedule does at a fire time while runs of it are unfinished: "allow", or its policy and the number of
// runs from which the policy counts, such as "skip while 2 runs are unfinished".
func OverlapText(s *queue.Schedule) string {
	if s.OverlapPolicy == "allow" {
		return "allow"
	}
	return fmt.Sprintf("%s while %s unfinished", s.OverlapPolicy, cmp.Or(map[int]string{1: "a run is"}[s.AtOnce], fmt.Sprintf("%d runs are", s.AtOnce)))
}

// CatchupText returns in words which missed fire times of a schedule still fire. A time is missed if no worker attended to it.
func CatchupText(s *queue.Schedule) string {
	if !s.Catchup {
		return "no: a missed time fires up to a minute late, and the newest missed time up to 10 minutes late; other missed times are dropped"
	}
	text := fmt.Sprintf("the newest %d", s.CatchupMax)
	if s.CatchupWindow > 0 {
		text += ", none older than " + s.CatchupWindow.String()
	}
	return text
}

// OwnerWord returns "user NAME" for the owner of a schedule, or "the DAG's file".
func OwnerWord(s *queue.Schedule) string {
	if s.Owner == "" {
		return "the DAG's file"
	}
	return "user " + InlineText(s.Owner)
}
