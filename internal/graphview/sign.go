package graphview

// Sign returns the sign of a task's state for text, and the SGR parameters of its colour.
func Sign(state string) (glyph, sgr string) {
	l := lookFor(state)
	return l.glyph, l.ansi
}

// Urgency returns a lower number for states that people want to see first: failed before running before ended.
func Urgency(state string) int { return lookFor(state).urgency }
