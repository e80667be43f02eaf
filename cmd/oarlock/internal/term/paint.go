package term

// Painter adds colours to text if it is true.
type Painter bool

// Paint returns s in the colour of code, the parameters of an SGR sequence such as "1;31". It returns s unchanged if p is false or
// s is empty.
func (p Painter) Paint(code, s string) string {
	if !p || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Good colours a state that is as it should be.
func (p Painter) Good(s string) string { return p.Paint("32", s) }

// Warn colours a state that deserves a look.
func (p Painter) Warn(s string) string { return p.Paint("33", s) }

// Bad colours a failure.
func (p Painter) Bad(s string) string { return p.Paint("1;31", s) }

// Note colours a name or a hint.
func (p Painter) Note(s string) string { return p.Paint("36", s) }

// Dim makes a text less visible than its surroundings.
func (p Painter) Dim(s string) string { return p.Paint("2", s) }

// Bold makes a text more visible than its surroundings.
func (p Painter) Bold(s string) string { return p.Paint("1", s) }
