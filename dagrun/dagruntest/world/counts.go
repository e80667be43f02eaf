package world

import "reflect"

// Counts are how often the interesting things happened.
type Counts struct {
	Steps, Commits, Bodies                                        int
	Kills, Freezes, Cuts, Drains, Woken                           int
	Takeovers, LostAttempts, Settled, DriveLimits                 int
	FailedCommits, UnknownCommits, RefusedCommits, SplitCommits   int
	FencedCommits, Parks, Wakes, RetriesOverTakeover, Generations int
	Cancels, CancelsOverEnd, Grown, Replaced, Published, Children int
	Succeeded, Failed, Canceled                                   int
}

// add sums two counts up, field by field.
func (c *Counts) add(other Counts) {
	sum, more := reflect.ValueOf(c).Elem(), reflect.ValueOf(other)
	for i := range sum.NumField() {
		sum.Field(i).SetInt(sum.Field(i).Int() + more.Field(i).Int())
	}
}

// below names the fields that are smaller than n.
func (c *Counts) below(n int64) (names []string) {
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		if v.Field(i).Int() < n {
			names = append(names, v.Type().Field(i).Name)
		}
	}
	return names
}
