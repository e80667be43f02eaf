package world

import "reflect"

// Counts counts the interesting things that happened.
type Counts struct {
	Calls, Starts, Ends, Transitions, Commits, Controls int

	Kills, HostsLost, Freezes, HostFreezes, Cuts, Stops, Drains, GuardKills int
	FailedBefore, FailedAfter, Twice, Slow, Late, LateRefused, Unheard      int
	Takeovers, LostLeases, LostAttempts, Fenced, Moved, Shared              int
	Parked, Waited, Published, Children, Items, Generations, Handlers       int
	Succeeded, Failed, Canceled, OutlivedTTL, Cancels                       int
	Fired, Unfired, Superseded                                              int // fire times of the schedule, and runs that it canceled
	FullPools                                                               int // bodies that took the last slot of a pool
}

// Steps counts what the simulation did: calls of the store, starts and ends of bodies, and transitions written.
func (c *Counts) Steps() int { return c.Calls + c.Starts + c.Ends + c.Transitions + c.Controls }

// add sums two counts up, field by field.
func (c *Counts) add(other *Counts) {
	sum, more := reflect.ValueOf(c).Elem(), reflect.ValueOf(other).Elem()
	for i := range sum.NumField() {
		sum.Field(i).SetInt(sum.Field(i).Int() + more.Field(i).Int())
	}
}

// below returns the names of the fields that are smaller than n.
func (c *Counts) below(n int64) (names []string) {
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		if v.Field(i).Int() < n {
			names = append(names, v.Type().Field(i).Name)
		}
	}
	return names
}
