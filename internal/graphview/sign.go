package graphview

// Sign returns the character for a task's state, and the SGR parameters of its colour. An unknown state gets "?".
func Sign(state string) (glyph, sgr string) {
	l := lookFor(state)
	return l.glyph, l.ansi
}

// Urgency returns a number by which lists sort tasks for people, the lowest first: failed states, then running ones, and succeeded
// last.
func Urgency(state string) int { return lookFor(state).urgency }
