package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	maxCronBytes = 500
	maxShown     = 50 // characters of a value in a message

	fieldsHint = "write five fields: minute hour day month weekday, such as 30 3 * * 1-5"
)

// cron is a compiled expression.
type cron struct {
	minutes  []int     // minutes of the day, sorted: hour * 60 + minute
	mask     minuteSet // minutes as a set
	days     [32]bool
	months   [13]bool
	weekdays [7]bool // 0 is Sunday
	either   bool    // day and weekday are both restricted: a day needs to match only one of them
	twice    bool    // the hour field begins with a star: a time that comes twice on a clock change fires twice
}

type cronField struct {
	name     string
	min, max int
	top      int      // largest value that an open range includes: a week has seven days
	names    []string // for min, min+1, …
}

var cronFields = [5]cronField{
	{"minute", 0, 59, 59, nil},
	{"hour", 0, 23, 23, nil},
	{"day", 1, 31, 31, nil},
	{"month", 1, 12, 12, strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")},
	{"weekday", 0, 7, 6, strings.Fields("sun mon tue wed thu fri sat")},
}

var cronNames = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// readCron compiles a cron expression. field is the field of the Timing with the expression, cron or except, and goes into the
// error.
func readCron(text, field string) (*cron, *Error) {
	fail := func(hint, format string, args ...any) (*cron, *Error) {
		return nil, &Error{Field: field, Value: text, Msg: field + ": " + fmt.Sprintf(format, args...), Hint: hint}
	}
	if n := len([]rune(text)); n > maxCronBytes {
		return fail(fieldsHint, "%d characters, at most %d", n, maxCronBytes)
	}
	typed := lower(strings.Trim(text, blanks))
	if full, ok := cronNames[typed]; ok {
		typed = full
	}
	if strings.HasPrefix(typed, "@") {
		hint := fieldsHint
		switch {
		case strings.HasPrefix(typed, "@every"):
			hint = "use every instead, such as every: 15m"
		case strings.HasPrefix(typed, "@reboot"):
			hint = "no schedule fires when a machine starts: write `oarlock enqueue NAME` into the boot script of the machine"
		}
		return fail(hint, `"%s" is none of @yearly, @monthly, @weekly, @daily and @hourly`, left(typed))
	}
	fields := strings.FieldsFunc(typed, func(r rune) bool { return strings.ContainsRune(blanks, r) })
	if len(fields) != len(cronFields) {
		hint := fieldsHint
		switch {
		case strings.Contains(typed, "tz="):
			hint = "give the time zone in timezone:, as in timezone: Europe/Paris"
		case len(fields) == 6 || len(fields) == 7:
			hint = "leave out the seconds (the first field) or the year (the last); below a minute use every"
		}
		return fail(hint, "wants five fields, not %d", len(fields))
	}
	var values [5][]int
	for i, f := range cronFields {
		var bad, hint string
		if values[i], bad, hint = f.read(fields[i]); hint != "" {
			return fail(hint, `"%s" is no %s (%d to %d)`, left(bad), f.name, f.min, f.max)
		}
	}
	return compile(fields, values), nil
}

// compile makes a cron of five fields. fields are their texts, which tell whether a field begins with a star, and values the
// numbers that each field stands for.
func compile(fields []string, values [5][]int) *cron {
	c := &cron{
		either: !strings.HasPrefix(fields[2], "*") && !strings.HasPrefix(fields[4], "*"),
		twice:  strings.HasPrefix(fields[1], "*"),
	}
	for _, h := range values[1] {
		for _, m := range values[0] {
			c.minutes = append(c.minutes, h*60+m)
		}
	}
	slices.Sort(c.minutes)
	c.minutes = slices.Compact(c.minutes)
	for _, m := range c.minutes {
		c.mask.add(m)
	}
	for _, n := range values[2] {
		c.days[n] = true
	}
	for _, n := range values[3] {
		c.months[n] = true
	}
	for _, n := range values[4] {
		c.weekdays[n%7] = true
	}
	return c
}

// read returns the values that a field stands for, unsorted and perhaps with duplicates. If an item of the field is invalid, it
// returns the item as bad, and a hint of what to type instead; hint is "" only for a valid field.
func (f cronField) read(field string) (values []int, bad, hint string) {
	for item := range strings.SplitSeq(field, ",") {
		part, stepText, stepped := strings.Cut(item, "/")
		from, to, ranged := strings.Cut(part, "-")
		step, readable := 1, true
		if stepped {
			step, readable = digits(stepText)
		}
		a, okA := f.number(from)
		b, okB := a, okA
		switch {
		case part == "*":
			a, b, okA, okB = f.min, f.top, true, true
		case ranged:
			b, okB = f.number(to)
		case stepped:
			b = max(a, f.top)
		}
		if !readable || step < 1 || step > f.max || !okA || !okB || a > b {
			return nil, item, cronHint(item, readable && okA && okB && a > b)
		}
		for n := a; n <= b; n += step {
			values = append(values, n)
		}
	}
	return values, "", ""
}

// number returns the value of a number or name, or false if it is outside the range of the field.
func (f cronField) number(text string) (int, bool) {
	if i := slices.Index(f.names, text); i >= 0 {
		return f.min + i, true
	}
	n, ok := digits(text)
	return n, ok && n >= f.min && n <= f.max
}

// digits reads a number of one to four digits. It returns false for any other text, such as one with a sign or blank.
func digits(text string) (int, bool) {
	if text == "" || len(text) > 4 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// cronHint returns a hint for an invalid item of a cron field. It knows the items that are valid in other systems. downwards says
// that the item is a range from a larger to a smaller value.
func cronHint(item string, downwards bool) string {
	has := func(before, last string) bool { // ends in last, right after a character of before
		return len(item) > 1 && strings.HasSuffix(item, last) && strings.ContainsRune(before, rune(item[len(item)-2]))
	}
	switch {
	case strings.Contains(item, "?"):
		return "write * instead of ?"
	case strings.Contains(item, "#"):
		return "cron cannot name the nth weekday of a month: fire on each such weekday, and let the first step check the date"
	case has("0123456789l", "w"):
		return "cron cannot name the nearest working day: write 1-5 as the weekday"
	case strings.HasPrefix(item, "l"), has("0123456789", "l"):
		return "cron cannot name the last day of a month: fire on 28-31, and let the first step check whether tomorrow is the 1st"
	case item == "h", strings.HasPrefix(item, "h("), strings.HasPrefix(item, "h/"):
		return "write a number instead of H"
	case downwards:
		return "a range goes up, as in 1-5; write two ranges to go past the end, as in 22-23,0-5"
	}
	return fieldsHint
}

const blanks = " \t\n\r"

// lower returns text with ASCII letters in lower case and all others unchanged, as the database does in collation C.
func lower(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// left returns the first maxShown characters of a value, for a message.
func left(text string) string {
	if runes := []rune(text); len(runes) > maxShown {
		return string(runes[:maxShown])
	}
	return text
}

// matches reports whether the expression fires on a day, at any minute, by its month, day and weekday.
func (c *cron) matches(d day) bool {
	_, month, of, weekday := d.date()
	if !c.months[month] {
		return false
	}
	if c.either {
		return c.days[of] || c.weekdays[weekday]
	}
	return c.days[of] && c.weekdays[weekday]
}

// exists reports whether the expression matches any day in any year. It does not if the day of the month is too large for all its
// months, as in 30 February. A weekday occurs in every month.
func (c *cron) exists() bool {
	lengths := [13]int{0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}
	for m, length := range lengths {
		if c.months[m] && (c.either || slices.Contains(c.days[1:length+1], true)) {
			return true
		}
	}
	return false
}
