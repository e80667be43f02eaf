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

// fromNode reads a map, or a text that is a cron expression.
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

// Timing converts a checked schedule for schedule.New.
func (s *Schedule) Timing() schedule.Timing {
	moment := func(text string) time.Time {
		t, _ := parseMoment(text)
		return t
	}
	return schedule.Timing{
		Cron: s.Cron, Every: s.Every.Std(), At: moment(s.At), Timezone: s.Timezone, Start: moment(s.Start), End: moment(s.End), Except: s.Except,
	}
}

// timing returns the timing as the file gives it, as one text. It is the name of a schedule without a name.
func (s *Schedule) timing() string {
	switch {
	case s.Cron != "":
		return strings.Join(strings.Fields(s.Cron), " ")
	case s.At != "":
		return "at " + s.At
	}
	return "every " + s.Every.String()
}

// parseMoment reads an RFC 3339 time into UTC, with the precision of the database. It refuses the zero time, and years that
// RFC 3339 cannot express.
func parseMoment(text string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, text)
	t = t.UTC().Truncate(time.Microsecond)
	return t, err == nil && t.Year() >= 1 && t.Year() <= 9999 && !t.IsZero()
}

// listOrOne returns the valid items of a list, or the one value in place of a list.
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

// scheduleName checks the name. Without a name the timing's text is the name, if the timing is known.
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
			hint = "its timing is its name, and too long: give it a name:"
		}
		c.add(at.pos(), hint, "the name of the schedule has %d bytes: at most %d", len(s.Name), scheduleNameBytes)
		return
	}
	if hash := strings.LastIndexByte(s.Name, '#'); hash >= 0 && hash < len(s.Name)-1 && strings.Trim(s.Name[hash+1:], "0123456789") == "" {
		c.add(at.pos(), "give it another name", "the name of the schedule ends in # and a number, as names of backfills do")
	}
	c.twice(seen, s.Name, at, "schedule")
}

// timings returns how many of cron, every and at a schedule has.
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

func (c *checker) schedule(s *Schedule, n *node) {
	if n.get("timezone") != nil && s.Timezone != "UTC" && n.timings() > 0 && !n.has("cron") && !n.has("except") {
		c.add(n.get("timezone").pos(), "remove it: every and at are the same in all time zones", "timezone without cron and except")
	}
	for _, key := range []string{"catchup_window", "catchup_max"} {
		if n.has(key) && !s.Catchup && (n.get("catchup") != nil || !n.has("catchup")) {
			c.add(n.get(key).pos(), "add catchup: true", "%s without catchup", key)
		}
	}
	if v := n.get("at_once"); v != nil && s.AtOnce > 1 && s.OverlapPolicy == "allow" {
		c.add(v.pos(), "remove one of the two: allow never holds a run back", "at_once with overlap_policy allow")
	}
	for _, v := range n.get("labels").fields() {
		c.noReferences(v)
	}
	c.scheduleParams(s, n)
}

// timing checks when a schedule fires, and reports whether its times are known. It skips values that the schema refused.
func (c *checker) timing(s *Schedule, n *node) bool {
	t := schedule.Timing{Cron: s.Cron, Every: s.Every.Std(), Timezone: s.Timezone, Except: s.Except}
	readable := c.moment(n, "at", &t.At)
	readable = c.moment(n, "start", &t.Start) && readable
	readable = c.moment(n, "end", &t.End) && readable
	given := n.timings()
	if given != 1 && (given > 0 || !cronLike(n.get("start").text())) {
		c.add(n.pos(), "write cron:, every: or at:", "a schedule needs exactly one of cron, every and at, this has %d", given)
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

// moment reads a time of a schedule. It reports whether the time is valid or not given.
func (c *checker) moment(n *node, key string, into *time.Time) bool {
	v := n.get(key)
	if v == nil {
		return !n.has(key)
	}
	t, ok := parseMoment(v.text())
	if !ok {
		hint := "write 2026-11-20T03:00:00Z, or with an offset such as +01:00"
		if key != "at" && cronLike(v.text()) {
			hint = startIsNoCron
		}
		c.add(v.pos(), hint, "%s is no time: %q", key, v.text())
	}
	*into = t
	return ok
}

// cronLike reports whether a text has five or six words, like a cron expression.
func cronLike(text string) bool {
	fields := len(strings.Fields(text))
	return fields == 5 || fields == 6
}

// timingHint returns a hint for a schedule that was written in the form of its name.
func timingHint(n *node, wrong *schedule.Error) string {
	if key, rest, _ := strings.Cut(n.text(), " "); key == "every" || key == "at" {
		if span, ok := spelledOut(rest); ok {
			rest = span
		}
		return fmt.Sprintf("write {%s: %s}", key, rest)
	}
	return wrong.Hint
}

// timingPos returns the position of the value that a timing error is about.
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
		hint := fmt.Sprintf("make it shorter than %s, the shortest time between two runs", Duration(gap.Milliseconds()))
		c.add(n.pos(), hint, "jitter of %s lets runs overtake each other", s.Jitter)
	}
}

// scheduleParams checks a schedule's params like those of a run.
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
