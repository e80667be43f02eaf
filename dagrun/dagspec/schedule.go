package dagspec

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/schedule"
)

const startIsNoCron = "cron: says when runs start; start: and end: are times, such as 2026-11-20T03:00:00Z; several schedules are a list"

const (
	scheduleNameBytes = 100
	jitterMax         = hour
	defaultCatchupMax = 100
)

func (s *Schedule) preset() {
	s.Timezone, s.Enabled, s.AtOnce = "UTC", true, 1
}

// fromNode reads a map, or a text that is a cron expression, and fills in defaults that depend on other fields: the name,
// catchup_max and overlap_policy. It writes times in UTC.
func (s *Schedule) fromNode(d *decoder, n *node) {
	if n.kind == kindString {
		s.Cron = n.text()
	} else {
		d.fields(n, reflect.ValueOf(s).Elem())
	}
	for _, text := range []*string{&s.At, &s.Start, &s.End} {
		if t, ok := parseMoment(*text); ok {
			*text = t.Format(time.RFC3339Nano)
		}
	}
	if s.Name == "" {
		s.Name = s.timing()
	}
	if s.Catchup && s.CatchupMax == 0 {
		s.CatchupMax = defaultCatchupMax
	}
	if s.OverlapPolicy == "" {
		s.OverlapPolicy = "skip"
		if s.Catchup { // with skip, the first missed time would make the schedule skip the others
			s.OverlapPolicy = "all"
		}
	}
}

// Timing returns the times of the schedule in the form that schedule.New takes. The schedule must have been checked: a time that
// cannot be read counts as not given.
func (s *Schedule) Timing() schedule.Timing {
	moment := func(text string) time.Time {
		t, _ := parseMoment(text)
		return t
	}
	return schedule.Timing{
		Cron: s.Cron, Every: s.Every.Std(), At: moment(s.At), Timezone: s.Timezone, Start: moment(s.Start), End: moment(s.End), Except: s.Except,
	}
}

// timing returns the cron expression, the interval or the time of the schedule as one text, such as "every 1h". A schedule without
// a name has this text as its name.
func (s *Schedule) timing() string {
	switch {
	case s.Cron != "":
		return strings.Join(strings.Fields(s.Cron), " ")
	case s.At != "":
		return "at " + s.At
	}
	return "every " + s.Every.String()
}

// parseMoment reads an RFC 3339 time into UTC, cut to microseconds, the precision of the database. It returns false for any other
// text, for the zero time, and for a year that RFC 3339 cannot express in UTC.
func parseMoment(text string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, text)
	t = t.UTC().Truncate(time.Microsecond)
	return t, err == nil && t.Year() >= 1 && t.Year() <= 9999 && !t.IsZero()
}

// listOrOne yields the good items of a list, or the node itself if it is no list. It yields nothing for nil.
func (n *node) listOrOne() iter.Seq[*node] {
	if n != nil && n.kind != kindList {
		return slices.Values([]*node{n})
	}
	return n.list()
}

func (c *checker) schedules() {
	seen := map[string]pos{}
	nodes := slices.Collect(c.root.get("schedule").listOrOne())
	for i := range c.spec.Schedule {
		s, n := &c.spec.Schedule[i], nodes[i]
		known := c.timing(s, n)
		c.scheduleName(s, n, known, seen)
		c.schedule(s, n)
	}
}

// scheduleName reports a name that is too long, looks like the name of a backfill, or is used twice. If n has no name, s.Name is
// made of the timing. known says whether the timing could be read: if it could not, scheduleName does not check a name that is made
// of the timing.
func (c *checker) scheduleName(s *Schedule, n *node, known bool, seen map[string]pos) {
	at := n
	if named := n.get("name"); named != nil {
		at = named
		c.noReferences(named)
	} else if n.has("name") || !known {
		return
	}
	if len(s.Name) > scheduleNameBytes {
		hint := "make it shorter"
		if at == n {
			hint = "a schedule without name: has its timing as name, which is too long: add name:"
		}
		c.add(at.pos(), hint, "the name of the schedule has %d bytes: at most %d", len(s.Name), scheduleNameBytes)
		return
	}
	if hash := strings.LastIndexByte(s.Name, '#'); hash >= 0 && hash < len(s.Name)-1 && strings.Trim(s.Name[hash+1:], "0123456789") == "" {
		c.add(at.pos(), "give the schedule another name", "the name of the schedule ends in # and a number, as names of backfills do")
	}
	c.twice(seen, s.Name, at, "schedule")
}

// timings returns how many of cron, every and at a schedule has. A text counts as a cron expression.
func (n *node) timings() int {
	given := 0
	for _, key := range []string{"cron", "every", "at"} {
		if n.has(key) {
			given++
		}
	}
	if n.kind == kindString {
		return 1
	}
	return given
}

// schedule reports fields of a schedule that have no effect together with others, references in its labels, and wrong params.
func (c *checker) schedule(s *Schedule, n *node) {
	if n.get("timezone") != nil && s.Timezone != "UTC" && n.timings() > 0 && !n.has("cron") && !n.has("except") {
		c.add(n.get("timezone").pos(), "remove timezone: every and at are the same in all time zones", "timezone works only with cron or except")
	}
	for _, key := range []string{"catchup_window", "catchup_max"} {
		if n.has(key) && !s.Catchup && (n.get("catchup") != nil || !n.has("catchup")) {
			c.add(n.get(key).pos(), "add catchup: true", "%s works only with catchup: true", key)
		}
	}
	if v := n.get("at_once"); v != nil && s.AtOnce > 1 && s.OverlapPolicy == "allow" {
		c.add(v.pos(), "remove one of the two: allow never holds a run back", "at_once has no effect with overlap_policy allow")
	}
	for _, v := range n.get("labels").fields() {
		c.noReferences(v)
	}
	c.scheduleParams(s, n)
}

// timing reports mistakes in the times at which a schedule fires. It returns whether there are none, and all values could be read.
// Values that the schema refused are not reported again.
func (c *checker) timing(s *Schedule, n *node) bool {
	t := schedule.Timing{Cron: s.Cron, Every: s.Every.Std(), Timezone: s.Timezone, Except: s.Except}
	readable := c.moment(n, "at", &t.At)
	readable = c.moment(n, "start", &t.Start) && readable
	readable = c.moment(n, "end", &t.End) && readable
	given := n.timings()
	if given != 1 && (given > 0 || !cronLike(n.get("start").text())) {
		c.add(n.pos(), "write cron:, every: or at:", "a schedule needs exactly one of cron, every and at, this schedule has %d", given)
	}
	for _, key := range []string{"cron", "every", "timezone", "except"} {
		readable = readable && (n.get(key) != nil || !n.has(key))
	}
	if !readable || given != 1 {
		return false
	}
	if n.has("every") && t.Every == 0 {
		t.Every = 1 // a value is given, and the next check refuses it as too short
	}
	problems := schedule.Check(t)
	for _, p := range problems {
		c.add(timingPos(n, p), timingHint(n, p), "%s", p.Msg)
	}
	if jitter := n.get("jitter"); jitter != nil && len(problems) == 0 {
		c.jitter(s, t, jitter)
	}
	return len(problems) == 0
}

// moment reads the time under a key of a schedule into *into, and reports a text that is no time. It returns whether the time is
// valid or not given.
func (c *checker) moment(n *node, key string, into *time.Time) bool {
	v := n.get(key)
	if v == nil {
		return !n.has(key)
	}
	t, ok := parseMoment(v.text())
	if !ok {
		hint := "write a time such as 2026-11-20T03:00:00Z, or with an offset such as +01:00"
		if key != "at" && cronLike(v.text()) {
			hint = startIsNoCron
		}
		c.add(v.pos(), hint, "%s is no time: %q", key, v.text())
	}
	*into = t
	return ok
}

// cronLike reports whether a text has five or six words, as a cron expression does.
func cronLike(text string) bool {
	fields := len(strings.Fields(text))
	return fields == 5 || fields == 6
}

// timingHint returns a hint for a mistake in a schedule. For a schedule that is the text "every …" or "at …" it proposes a map, and
// for any other the hint of wrong.
func timingHint(n *node, wrong *schedule.Error) string {
	if key, rest, _ := strings.Cut(n.text(), " "); key == "every" || key == "at" {
		if span, ok := spelledOut(rest); ok {
			rest = span
		}
		return fmt.Sprintf("write {%s: %s}", key, rest)
	}
	return wrong.Hint
}

// timingPos returns the position of the value that a timing error is about: for except, of the entry. If the schedule has no such
// key, it is the position of the schedule.
func timingPos(n *node, wrong *schedule.Error) pos {
	v := n.get(wrong.Field)
	if wrong.Field == "except" {
		for item := range v.list() {
			if strings.TrimSpace(item.text()) == strings.TrimSpace(wrong.Value) {
				return item.pos()
			}
		}
	}
	if v == nil {
		return n.pos()
	}
	return v.pos()
}

// jitter reports a jitter that is too long, or at least as long as the shortest time between two fires of t.
func (c *checker) jitter(s *Schedule, t schedule.Timing, n *node) {
	if s.Jitter > jitterMax {
		c.add(n.pos(), "at most 1h", "jitter is too long")
		return
	}
	clock, err := schedule.New(t)
	if err != nil {
		return // not reached: schedule.Check has accepted t
	}
	if gap := clock.ShortestGap(); s.Jitter.Std() >= gap {
		hint := fmt.Sprintf("make jitter shorter than %s, the shortest time between two runs", Duration(gap.Milliseconds()))
		c.add(n.pos(), hint, "with a jitter of %s a run could start before an earlier run", s.Jitter)
	}
}

// scheduleParams checks a schedule's params as Spec.Params does for a run. A required param must be among them.
func (c *checker) scheduleParams(s *Schedule, n *node) {
	if n.has("params") && n.get("params") == nil {
		return
	}
	_, err := c.spec.Params(s.Params)
	problems, _ := errors.AsType[ParamErrors](err)
	for _, p := range problems {
		_, at := n.get("params").find(p.Name)
		if at == nil {
			at, p.Hint = n, "write params: {"+p.Name+": …}"
		}
		c.add(at.pos(), p.Hint, "param %s of the schedule: %s", p.Name, p.Msg)
	}
}
