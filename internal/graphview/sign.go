package graphview

// Sign is how a state of a task is shown in text: a sign, and the SGR parameters of its colour.
func Sign(state string) (glyph, sgr string) {
	l := lookFor(state)
	return l.glyph, l.ansi
}

// Urgency is lower for what people want to see first: what failed before what runs, what runs before what is done.
func Urgency(state string) int { return lookFor(state).urgency }
