// Package schedule computes the moments at which schedules fire, by a cron expression, an interval or a single time.
//
//	clock, err := schedule.New(schedule.Timing{Cron: "30 3 * * 1-5", Timezone: "Europe/Paris"}) // err is an *Error
//	fires, ok := clock.Next(time.Now())
//
// The database is the authority: schema function oarlock.next_time decides what fires. This package computes the same for
// previews and for the store in memory. A test of package migrations checks that both agree, so a change here needs the same
// change there.
//
// # The rule
//
// A wall time that exists once fires once. A wall time in a gap fires shifted by the gap: 02:30 becomes 03:30, and equal
// moments are one fire. A wall time that comes twice fires in the first pass, or in both passes if the hour field begins
// with a star. If day and weekday are both restricted, which means that neither begins with a star, a day needs to match
// only one of them.
//
// # What the package does not know
//
// The current time, and schedules. Time zones are those of this machine, which New reads. A Clock does not change after it
// was made, so any number of goroutines may share it.
package schedule
