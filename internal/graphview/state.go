package graphview

// look is how a state of a task is shown. Colour never stands alone: the glyph or the word says it too.
type look struct {
	state   string
	glyph   string
	ascii   string
	ansi    string // SGR parameters
	class   string // of style.css: neutral, active, waiting, good, bad or faint
	urgency int    // what is kept when others are folded: lower first
}

var looks = []look{
	{"failed", "✗", "x", "31", "bad", 0},
	{"upstream_failed", "⇡", "^", "31", "bad", 1},
	{"running", "▸", ">", "33", "active", 2},
	{"finishing", "◐", "%", "33", "active", 2},
	{"retrying", "↻", "~", "33", "active", 2},
	{"waiting", "◷", "w", "34", "waiting", 3},
	{"paused", "‖", "=", "35", "waiting", 3},
	{"ready", "○", "o", "36", "neutral", 4},
	{"canceled", "⊘", "/", "35", "faint", 5},
	{"replaced", "↪", "r", "90", "faint", 5},
	{"pending", "·", ".", "90", "neutral", 6},
	{"skipped", "–", "-", "90", "faint", 7},
	{"succeeded", "✓", "+", "32", "good", 8},
}

var lookOf = func() map[string]look {
	m := make(map[string]look, len(looks))
	for _, l := range looks {
		m[l.state] = l
	}
	return m
}()

// lookFor is the look of a state; a word nobody knows yet is shown plainly.
func lookFor(state string) look {
	if l, ok := lookOf[state]; ok {
		return l
	}
	return look{state: state, glyph: "?", ascii: "?", ansi: "0", class: "neutral", urgency: 4}
}
