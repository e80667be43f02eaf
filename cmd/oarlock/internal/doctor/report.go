package doctor

import "fmt"

// Status is the outcome of a check.
type Status string

// Outcomes, from good to bad; Skip means that the check could not be made or has no meaning here.
const (
	OK   Status = "ok"
	Skip Status = "skip"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Check is one thing that was examined.
type Check struct {
	Name   string
	Status Status
	Detail string // what was seen
	Hint   string // what to do; empty when there is nothing to do
}

// Report is everything that was examined, in a fixed order.
type Report struct {
	Checks []Check
}

// Count is the number of checks with this outcome.
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

// withHint adds to a check what to do about it.
func (c Check) withHint(format string, args ...any) Check {
	c.Hint = fmt.Sprintf(format, args...)
	return c
}

// countRuns is how many runs, with what is said of one or of several; there may be more where no more were counted.
func countRuns(n, most int, one, several string) string {
	switch {
	case n == 1:
		return "1 run " + one
	case n >= most:
		return fmt.Sprintf("%d+ runs %s", n, several)
	}
	return fmt.Sprintf("%d runs %s", n, several)
}
