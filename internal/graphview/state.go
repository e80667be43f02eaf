package graphview

// look is the appearance of a task's state. The glyph or the word shows the state too, for readers that see no colour.
type look struct {
	state   string
	glyph   string
	ascii   string
	ansi    string // SGR parameters
	class   string // of style.css: neutral, active, waiting, good, bad or faint
	urgency int    // nodes with a lower number are kept when others are folded
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

// lookFor returns the look of a state. An unknown state has a plain look.
func lookFor(state string) look {
	if l, ok := lookOf[state]; ok {
		return l
	}
	return look{state: state, glyph: "?", ascii: "?", ansi: "0", class: "neutral", urgency: 4}
}
