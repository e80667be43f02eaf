package doctor

import "fmt"

// Status is the outcome of a check.
type Status string

// The outcomes, from good to bad. Skip means that the check could not be made, or has no meaning for this database.
const (
	OK   Status = "ok"
	Skip Status = "skip"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Check is the result of one check.
type Check struct {
	Name   string
	Status Status
	Detail string // what the check saw
	Hint   string // what to do; empty when there is nothing to do
}

// Report has the results of all checks, in a fixed order.
type Report struct {
	Checks []Check
}

// Count returns the number of checks with this outcome.
func (r Report) Count(s Status) int {
	n := 0
	for _, c := range r.Checks {
		if c.Status == s {
			n++
		}
	}
	return n
}

func ok(format string, args ...any) Check {
	return Check{Status: OK, Detail: fmt.Sprintf(format, args...)}
}

func skip(format string, args ...any) Check {
	return Check{Status: Skip, Detail: fmt.Sprintf(format, args...)}
}

func warn(format string, args ...any) Check {
	return Check{Status: Warn, Detail: fmt.Sprintf(format, args...)}
}

func fail(format string, args ...any) Check {
	return Check{Status: Fail, Detail: fmt.Sprintf(format, args...)}
}

// withHint returns the check with a hint: what the user should do.
func (c Check) withHint(format string, args ...any) Check {
	c.Hint = fmt.Sprintf(format, args...)
	return c
}

// countRuns returns a number of runs with a verb, such as "1 run is due": one is the verb for one run, several the verb for any
// other number. Counting stopped at most, so a number that reaches most gets a "+".
func countRuns(n, most int, one, several string) string {
	switch {
	case n == 1:
		return "1 run " + one
	case n >= most:
		return fmt.Sprintf("%d+ runs %s", n, several)
	}
	return fmt.Sprintf("%d runs %s", n, several)
}
