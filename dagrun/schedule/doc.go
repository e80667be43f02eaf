// Package schedule computes when schedules fire: the moments that a cron expression, an interval or a single time means.
//
//	clock, err := schedule.New(schedule.Timing{Cron: "30 3 * * 1-5", Timezone: "Europe/Paris"}) // err is an *Error
//	fires, ok := clock.Next(time.Now())
//
// The database is the authority: schema function oarlock.next_time decides what fires. This package computes the same for
// previews and for the store in memory, and a test of package migrations holds both equal: a change here is one there.
//
// # The rule
//
// A wall time that exists once fires. One in a gap fires shifted by the gap (02:30 is 03:30 then; equal moments are one
// fire). One that comes twice fires in the first pass, and in both where the hour field begins with a star. Where day and
// weekday are both restricted, which means that neither begins with a star, one of them is enough.
//
// # What it never knows
//
// The current time, and schedules. Time zones are those of this machine, which New reads; a Clock is not changed after it
// was made and may be shared by any number of goroutines.
package schedule
