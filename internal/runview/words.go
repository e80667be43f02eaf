package runview

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

const paramRunesMax = 60 // of one value; a longer value is cut, with a mark

// LocalTime formats a time in the zone of $TZ with its offset, "Z" for UTC. It returns "–" for the zero time.
func LocalTime(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.Local().Format("2006-01-02 15:04:05Z07:00")
}

// WallTime formats a time as a clock in the zone shows it, without seconds if they are zero. If this machine does not know the
// zone, it uses UTC, and marks the time with Z.
func WallTime(t time.Time, zone string) string {
	layout := "2006-01-02 15:04"
	if t.Truncate(time.Minute) != t {
		layout += ":05"
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		return t.UTC().Format(layout) + "Z"
	}
	return t.In(location).Format(layout)
}

// Count returns a number with its noun: 1 step, 2 steps.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// times returns a number of times in words: once, twice, 3 times.
func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return strconv.Itoa(n) + " times"
}

// Span formats a duration with the precision that people need: 40ms, 3.2s, 41s, 1m05s, 2h07m, 3d04h. It rounds down, and a negative
// duration is 0ms.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
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

// Printable returns text from a database, a file or a person on one line. It replaces characters that control a terminal, and bad
// UTF-8, by U+FFFD.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case commandsTerminal(r):
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
}

// commandsTerminal reports whether a terminal would obey a character instead of showing it, or reorder text because of it. \n and
// \t do not count.
func commandsTerminal(r rune) bool {
	return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// InlineText returns printable text that does not reorder the text beside it, even if it reads from right to left.
func InlineText(text string) string { return graphview.Isolate(Printable(text)) }

// ShellWord returns a word for the command line of a shell: in quotes if the shell would split or change it. Characters that cannot
// be printed are lost: see exactWord.
func ShellWord(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./~@:+,=%") == "" && !strings.HasPrefix(word, "~") {
		return word
	}
	return "'" + strings.ReplaceAll(Printable(word), "'", `'\''`) + "'"
}

// LastLinesMax is the largest number of lines that LastLines returns.
const LastLinesMax = 5

// LastLines returns at most LastLinesMax lines, the last ones of a log that are not blank, safe to show on a terminal.
func LastLines(text string) []string {
	lines := strings.Split(strings.TrimRight(text, "\r\n\t "), "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "" })
	lines = lines[max(0, len(lines)-LastLinesMax):]
	for i := range lines {
		lines[i] = Printable(strings.TrimRight(lines[i], "\r"))
	}
	return lines
}

// LabelText lists labels by name: a=1 b=2.
func LabelText(labels map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, InlineText(k)+"="+InlineText(labels[k]))
	}
	return strings.Join(all, " ")
}

// ParamText lists params by name: day=2026-11-20 limit=10. Long values are cut. It returns a text that is no JSON object as it is.
func ParamText(params json.RawMessage) string {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(params, &values); err != nil {
		return InlineText(string(params))
	}
	var all []string
	for _, k := range slices.Sorted(maps.Keys(values)) {
		all = append(all, InlineText(k)+"="+InlineText(paramValue(values[k])))
	}
	return strings.Join(all, " ")
}

// paramValue returns the JSON of a value, cut to paramRunesMax. A text loses its quotes if it is clear without them.
func paramValue(raw json.RawMessage) string {
	value := string(raw)
	var text string
	if json.Unmarshal(raw, &text) == nil && text != "" && !strings.ContainsAny(text, " \"'=\\") {
		value = text
	}
	return firstRunes(value, paramRunesMax)
}

// firstRunes returns a text, or its first most runes and "…" if it is longer.
func firstRunes(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
