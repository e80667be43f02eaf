package dagspec

import (
	"fmt"
	"strconv"
	"strings"
)

type cronField struct {
	name     string
	min, max int
	names    []string // for min, min+1, …
}

var cronFields = []cronField{
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day", 1, 31, nil},
	{"month", 1, 12, strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")},
	{"weekday", 0, 7, strings.Fields("sun mon tue wed thu fri sat")},
}

// checkCron says what is wrong with a cron expression, "" for nothing.
func checkCron(text string) string {
	switch text {
	case "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly":
		return ""
	}
	fields := strings.Fields(text)
	if len(fields) != len(cronFields) {
		return fmt.Sprintf("%d fields instead of five", len(fields))
	}
	for i, f := range cronFields {
		for _, part := range strings.Split(strings.ToLower(fields[i]), ",") {
			if !f.takes(part) {
				return fmt.Sprintf("%q is no %s (%d to %d)", fields[i], f.name, f.min, f.max)
			}
		}
	}
	return ""
}

// takes reads *, n, n-m, and each with /step.
func (f cronField) takes(part string) bool {
	part, step, stepped := strings.Cut(part, "/")
	if n, err := strconv.Atoi(step); stepped && (err != nil || n < 1 || n > f.max) {
		return false
	}
	if part == "*" {
		return true
	}
	from, to, ranged := strings.Cut(part, "-")
	a, okA := f.number(from)
	b, okB := f.number(to)
	return okA && (!ranged || okB && a <= b)
}

func (f cronField) number(text string) (int, bool) {
	for i, name := range f.names {
		if text == name {
			return f.min + i, true
		}
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= f.min && n <= f.max && !strings.HasPrefix(text, "+")
}
