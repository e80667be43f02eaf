package web

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/internal/graphview"
	"github.com/oarlock-dev/oarlock/internal/runview"
)

// The elements of this file are the markup that templates share. Each escapes all it is given.

// markup fills a form of ours with texts, which it escapes.
func markup(form string, texts ...string) template.HTML {
	args := make([]any, len(texts))
	for i, text := range texts {
		args[i] = template.HTMLEscapeString(text)
	}
	return template.HTML(fmt.Sprintf(form, args...)) //nolint:gosec // the form is a constant, and what fills it is escaped
}

const clockLayout = "2006-01-02 15:04:05"

// when is a moment: in UTC, which the script turns into the reader's zone. There is none for the zero time.
func when(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	exact := t.UTC().Format(time.RFC3339)
	return markup(`<time datetime="%s" title="%s">%s</time>`, exact, exact, t.UTC().Format(clockLayout)+"Z")
}

// drawn is a picture of graphview, which escapes all texts in it.
func drawn(svg string) template.HTML { return template.HTML(svg) } //nolint:gosec // as it says

// clock is a moment of a log, to the millisecond. The script turns it into the reader's zone.
func clock(t time.Time) template.HTML {
	if t.IsZero() {
		return ""
	}
	return markup(`<time class="at" datetime="%s">%s</time>`, t.UTC().Format("2006-01-02T15:04:05.000Z"), t.UTC().Format("15:04:05.000"))
}

// since is how long ago a moment was, which the script keeps going.
func since(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	exact := t.UTC().Format(time.RFC3339Nano)
	return markup(`<time datetime="%s" data-since="%s" title="since %s">%s</time>`,
		exact, strconv.FormatInt(t.UnixMilli(), 10), t.UTC().Format(time.RFC3339), runview.Span(time.Since(t)))
}

// pill is a state by its sign and its word.
func pill(state string) template.HTML {
	return markup(`<span class="pill s %s"><i aria-hidden="true">%s</i>%s</span>`, stateClass(state), signOf(state), runview.InlineText(state))
}

// glyph is a state by its sign alone; its word is for readers that hear the page.
func glyph(state string) template.HTML {
	return markup(`<span class="g %s" role="img" aria-label="%s">%s</span>`, stateClass(state), runview.InlineText(state), signOf(state))
}

// copyButton copies a text. It shows where the script runs, which is what makes it work.
func copyButton(text string) template.HTML {
	return markup(`<button class="copy" type="button" data-copy="%s" aria-label="Copy %s" title="Copy">`+
		`<svg viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.4" aria-hidden="true"><rect x="5.2" y="5.2" width="8" height="8.6" rx="1.8"/>`+
		`<path d="M10.6 5V3.6A1.6 1.6 0 0 0 9 2H4.4a1.6 1.6 0 0 0-1.6 1.6v5A1.6 1.6 0 0 0 4.4 10.2H5"/></svg></button>`, text, text)
}

// once has a form act once, however often it is sent.
func once() template.HTML {
	return markup(`<input type="hidden" name="`+onceField+`" value="%s">`, newNonce())
}

// signOf is the sign of a state of a run or a task.
func signOf(state string) string {
	switch state {
	case "queued":
		state = "ready" // it may start, as a task that is ready
	case "scheduled":
		return "◔"
	}
	sign, _ := graphview.Sign(state)
	return sign
}

// stateClass is the class of a state. A state that this program does not know has none of its own.
func stateClass(state string) string {
	if strings.Trim(state, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return "pending"
	}
	return state
}

// num is a number with its thousands apart.
func num(n any) string {
	digits, sign := fmt.Sprint(n), ""
	if rest, ok := strings.CutPrefix(digits, "-"); ok {
		digits, sign = rest, "-"
	}
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}
