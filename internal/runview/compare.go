package runview

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// Difference is one thing that differs between two runs: its value in the one, and its value in the other. "" means that a
// run has no value.
type Difference struct {
	Name    string
	Was, Is string
	Change  string // of a duration: +12s; "": there is no number
}

// RunDifferences compares the facts of two runs of a DAG, without their params, but with the times that they waited and took. It
// returns the facts in which they differ, and the names of the facts that are equal and not empty. The drivers come from DriverOf.
// A run that has not ended has taken the time until now.
func RunDifferences(was, is *queue.Run, wasDriver, isDriver string, now time.Time) (differ []Difference, same []string) {
	before, after := comparedFacts(was, wasDriver), comparedFacts(is, isDriver)
	for i, f := range before {
		switch value := after[i].Value.String(); {
		case f.Value.String() != value:
			differ = append(differ, Difference{Name: f.Name, Was: f.Value.String(), Is: value})
		case value != "":
			same = append(same, f.Name)
		}
	}
	a, begun := runWait(was)
	b, begunToo := runWait(is)
	times := []Difference{timeDifference("waited", a, b, begun, begunToo)}
	a, begun = Elapsed(was.StartedAt, was.FinishedAt, now)
	b, begunToo = Elapsed(is.StartedAt, is.FinishedAt, now)
	for _, d := range append(times, timeDifference("took", a, b, begun, begunToo)) {
		switch {
		case d.Was != d.Is:
			differ = append(differ, d)
		case d.Was != "":
			same = append(same, d.Name)
		}
	}
	return differ, same
}

// timeDifference compares two durations as a Difference with this name. hasWas and hasIs are false for an unknown duration.
func timeDifference(name string, was, is time.Duration, hasWas, hasIs bool) Difference {
	d := Difference{Name: name}
	if hasWas {
		d.Was = Span(was)
	}
	if hasIs {
		d.Is = Span(is)
	}
	if hasWas && hasIs {
		d.Change = SpanChange(is - was)
	}
	return d
}

// comparedFacts returns the facts of a run that RunDifferences compares, always in the same order.
func comparedFacts(r *queue.Run, driver string) []Fact {
	fact := func(name, value string) Fact { return Fact{Name: name, Value: Text{words(value)}} }
	queued := Printable(r.Queue)
	if r.Priority != 0 {
		queued += fmt.Sprintf(", priority %d", r.Priority)
	}
	asked := InlineText(r.AskedBy())
	if r.Trigger != "sql" && r.Trigger != "" {
		asked += ", " + r.Trigger
	}
	generation := ""
	if r.Generation > 1 {
		generation = strconv.Itoa(r.Generation)
	}
	return []Fact{
		fact("state", r.State), fact("reason", InlineText(r.Reason)), fact("version", strconv.Itoa(r.Version)), fact("labels", LabelText(r.Labels)),
		fact("queue", queued), fact("worker", InlineText(driver)), fact("asked by", asked), fact("schedule", InlineText(r.Schedule)),
		fact("generation", generation),
	}
}

// SpanChange formats the difference between two durations: +12s, −3.1s, ±0ms.
func SpanChange(d time.Duration) string {
	switch {
	case d >= time.Millisecond:
		return "+" + Span(d)
	case d <= -time.Millisecond:
		return "−" + Span(-d)
	}
	return "±0ms"
}

// ValueDifferences compares two JSON values, and appends their differences to all until all has limit elements. It returns all, and
// the number of further differences. The name of a difference is its path, which begins with path. An empty was means that the first
// run has no such value, and an empty is the same of the second run. An error means that one of the values is not JSON.
func ValueDifferences(all []Difference, path string, was, is json.RawMessage, limit int) ([]Difference, int, error) {
	c := valueComparison{found: all, limit: limit}
	a, err := readValue(was)
	if err != nil {
		return all, 0, fmt.Errorf("read %s: %w", path, err)
	}
	b, err := readValue(is)
	if err != nil {
		return all, 0, fmt.Errorf("read %s: %w", path, err)
	}
	c.values(path, a, b)
	return c.found, c.more, nil
}

// noValue stands for a missing value. A null is a value.
type noValue struct{}

func readValue(raw json.RawMessage) (value any, err error) {
	if len(raw) == 0 {
		return noValue{}, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // numbers keep all their digits
	err = d.Decode(&value)
	return value, err
}

// valueComparison collects the places at which two values differ.
type valueComparison struct {
	found       []Difference
	limit, more int
}

func (c *valueComparison) values(path string, was, is any) {
	switch a := was.(type) {
	case map[string]any:
		if b, ok := is.(map[string]any); ok {
			c.objects(path, a, b)
			return
		}
	case []any:
		if b, ok := is.([]any); ok {
			for i := range max(len(a), len(b)) {
				c.values(fmt.Sprintf("%s[%d]", path, i), itemOf(a, i), itemOf(b, i))
			}
			return
		}
	}
	a, b := valueText(was), valueText(is)
	switch {
	case a == b:
	case len(c.found) >= c.limit:
		c.more++
	default:
		a, b = cutAlike(a, b)
		c.found = append(c.found, Difference{Name: path, Was: a, Is: b})
	}
}

func (c *valueComparison) objects(path string, was, is map[string]any) {
	keys := maps.Clone(was)
	maps.Copy(keys, is)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		a, ok := was[key]
		if !ok {
			a = noValue{}
		}
		b, ok := is[key]
		if !ok {
			b = noValue{}
		}
		c.values(strings.TrimPrefix(path+"."+key, "."), a, b)
	}
}

func itemOf(all []any, i int) any {
	if i < len(all) {
		return all[i]
	}
	return noValue{}
}

func valueText(v any) string {
	if _, none := v.(noValue); none {
		return ""
	}
	return CompactJSON(v)
}

const (
	comparedRunesMax = 200 // of a value that differs
	alikeRunesMax    = 40  // of the common beginning of two long values
)

// cutAlike shortens two texts if one of them is longer than comparedRunesMax. Of their common beginning it keeps the last
// alikeRunesMax runes, so that both still show where they begin to differ. "…" marks the places where something is missing.
func cutAlike(a, b string) (string, string) {
	x, y := []rune(a), []rune(b)
	if len(x) <= comparedRunesMax && len(y) <= comparedRunesMax {
		return a, b
	}
	at := 0
	for at < min(len(x), len(y)) && x[at] == y[at] {
		at++
	}
	at -= alikeRunesMax
	return cutFrom(x, at), cutFrom(y, at)
}

func cutFrom(text []rune, at int) string {
	begin := ""
	if at > 0 {
		begin, text = "…", text[min(at, len(text)):]
	}
	return begin + firstRunes(string(text), comparedRunesMax)
}
