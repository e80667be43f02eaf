package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oarlock-dev/oarlock/internal/graphview"
)

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func roundMs(d time.Duration) string { return d.Round(time.Millisecond).String() }

// localTime is how people get to see a time: in the zone of $TZ, with its offset, "Z" for UTC; "–" when there is none.
func localTime(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "–"
	}
	return t.Local().Format("2006-01-02 15:04:05Z07:00")
}

// utcOrNull is how programs get to see a time.
func utcOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// count is a number with its noun: 1 step, 2 steps.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// span is a duration as exact as people care: 40ms, 3.2s, 41s, 1m05s, 2h07m, 3d04h.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0ms"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", float64(d.Milliseconds()/100)/10)
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
}

const day = 24 * time.Hour

// printable is text from a database, a file or a person in one line, without what would command a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case commands(r):
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
}

// commands says whether a character would command a terminal rather than be shown. Line ends are not among them.
func commands(r rune) bool {
	return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// shown is printable text that leaves what stands beside it in order, whichever way it reads.
func shown(text string) string { return graphview.Isolate(printable(text)) }

// labelText is labels by name, fit to be shown: a=1 b=2.
func labelText(labels map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, shown(k)+"="+shown(labels[k]))
	}
	return strings.Join(all, " ")
}

const paramWidth = 60 // of one value; a longer one is cut where a person reads it, with a mark

// paramText is params by name, fit to be shown: day=2026-11-20 limit=10.
func paramText(params json.RawMessage) string {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(params, &values); err != nil {
		return shown(string(params))
	}
	var all []string
	for _, k := range slices.Sorted(maps.Keys(values)) {
		all = append(all, shown(k)+"="+shown(paramValue(values[k])))
	}
	return strings.Join(all, " ")
}

// paramValue shows a text without quotes where that is clear.
func paramValue(raw json.RawMessage) string {
	shown := string(raw)
	var text string
	if json.Unmarshal(raw, &text) == nil && text != "" && !strings.ContainsAny(text, " \"'=\\") {
		shown = text
	}
	if runes := []rune(shown); len(runes) > paramWidth {
		return string(runes[:paramWidth]) + "…"
	}
	return shown
}
