package term

// Painter adds colours to text if it is true.
type Painter bool

// Paint adds the colour of an SGR code, such as "1;31".
func (p Painter) Paint(code, s string) string {
	if !p || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Good, Warn and Bad colour a state.
func (p Painter) Good(s string) string { return p.Paint("32", s) }
func (p Painter) Warn(s string) string { return p.Paint("33", s) }
func (p Painter) Bad(s string) string  { return p.Paint("1;31", s) }

// Note, Dim and Bold set off a text that is no state.
func (p Painter) Note(s string) string { return p.Paint("36", s) }
func (p Painter) Dim(s string) string  { return p.Paint("2", s) }
func (p Painter) Bold(s string) string { return p.Paint("1", s) }
