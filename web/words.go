package web

import (
	"cmp"
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
	"github.com/oarlock-dev/oarlock/queue"
)

// words is text from a database or a person in one line, which leaves what stands beside it in order.
func words(text string) string {
	return graphview.Isolate(strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(text, string(utf8.RuneError))))
}

// spanText is a duration as exact as people care: 40ms, 3.2s, 41s, 1m05s, 2h07m, 3d04h.
func spanText(d time.Duration) string {
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

// shellWord is a word as a shell takes it for one.
func shellWord(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./@:+,=%") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// runNote says in a line what a person wants to know of a run.
func runNote(r *queue.Run) string {
	note := words(r.Reason)
	if note == "" && r.Tolerated == 1 {
		note = "1 failure tolerated"
	}
	if note == "" && r.Tolerated > 0 {
		note = strconv.Itoa(r.Tolerated) + " failures tolerated"
	}
	if note == "" && r.Schedule != "" {
		note = "schedule " + words(r.Schedule)
	}
	return cmp.Or(note, pairsText(r.Labels, func(v string) string { return v }))
}

const paramWidth = 60 // characters of one value

// paramText is params by name: day=2026-11-20 limit=10.
func paramText(params json.RawMessage) string {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(params, &values); err != nil {
		return words(string(params))
	}
	return pairsText(values, func(raw json.RawMessage) string {
		shown := string(raw)
		var text string
		if json.Unmarshal(raw, &text) == nil && text != "" && !strings.ContainsAny(text, " \"'=\\") {
			shown = text
		}
		if runes := []rune(shown); len(runes) > paramWidth {
			shown = string(runes[:paramWidth]) + "…"
		}
		return shown
	})
}

func pairsText[V any](values map[string]V, text func(V) string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all = append(all, words(name)+"="+words(text(values[name])))
	}
	return strings.Join(all, " ")
}
