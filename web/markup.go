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

// The functions of this file make the HTML that templates share. Each escapes its arguments.

// markup fills texts, escaped for HTML, into form. form must be a constant, and has one %s for each text.
func markup(form string, texts ...string) template.HTML {
	args := make([]any, len(texts))
	for i, text := range texts {
		args[i] = template.HTMLEscapeString(text)
	}
	return template.HTML(fmt.Sprintf(form, args...)) //nolint:gosec // form is a constant, and the texts are escaped
}

const clockLayout = "2006-01-02 15:04:05"

// when returns a time in UTC, which the script turns into the reader's zone; "–" for the zero time.
func when(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	exact := t.UTC().Format(time.RFC3339)
	return markup(`<time datetime="%s" title="%s">%s</time>`, exact, exact, t.UTC().Format(clockLayout)+"Z")
}

// drawn marks an SVG of graphview as safe, since graphview escapes the texts in it.
func drawn(svg string) template.HTML { return template.HTML(svg) } //nolint:gosec // graphview has escaped it

// clock returns the time of a log line, to the millisecond; "" for the zero time. The script turns it into the reader's zone.
func clock(t time.Time) template.HTML {
	if t.IsZero() {
		return ""
	}
	return markup(`<time class="at" datetime="%s">%s</time>`, t.UTC().Format("2006-01-02T15:04:05.000Z"), t.UTC().Format("15:04:05.000"))
}

// since returns how long ago t was; "–" for the zero time. The script keeps the text up to date.
func since(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	exact := t.UTC().Format(time.RFC3339Nano)
	return markup(`<time datetime="%s" data-since="%s" title="since %s">%s</time>`,
		exact, strconv.FormatInt(t.UnixMilli(), 10), t.UTC().Format(time.RFC3339), runview.Span(time.Since(t)))
}

// pill returns a state as its sign and its word.
func pill(state string) template.HTML {
	return markup(`<span class="pill s %s"><i aria-hidden="true">%s</i>%s</span>`, stateClass(state), signOf(state), runview.InlineText(state))
}

// glyph returns a state as its sign alone. The word is there for screen readers.
func glyph(state string) template.HTML {
	return markup(`<span class="g %s" role="img" aria-label="%s">%s</span>`, stateClass(state), runview.InlineText(state), signOf(state))
}

// copyButton returns a button that copies text. It is hidden where the script does not run, since the script does the work.
func copyButton(text string) template.HTML {
	return markup(`<button class="copy" type="button" data-copy="%s" aria-label="Copy %s" title="Copy">`+
		`<svg viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.4" aria-hidden="true"><rect x="5.2" y="5.2" width="8" height="8.6" rx="1.8"/>`+
		`<path d="M10.6 5V3.6A1.6 1.6 0 0 0 9 2H4.4a1.6 1.6 0 0 0-1.6 1.6v5A1.6 1.6 0 0 0 4.4 10.2H5"/></svg></button>`, text, text)
}

// once returns a hidden field by which the form acts once, however often it is sent.
func once() template.HTML {
	return markup(`<input type="hidden" name="`+onceField+`" value="%s">`, newNonce())
}

// signOf returns the sign of a run's or task's state. A queued run has the sign of a task that is ready.
func signOf(state string) string {
	switch state {
	case "queued":
		state = "ready" // a queued run may start, like a task that is ready
	case "scheduled":
		return "◔"
	}
	sign, _ := graphview.Sign(state)
	return sign
}

// stateClass returns the CSS class of a state. A name with other characters than a to z and _ gets the class of pending.
func stateClass(state string) string {
	if strings.Trim(state, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return "pending"
	}
	return state
}

// num returns an integer with commas between thousands.
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
