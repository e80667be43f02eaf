package loghtml

import (
	"strconv"
	"strings"
)

// style is the look of text in a terminal. It has the sixteen colours of terminals, for which the style sheet has values on light
// and dark pages; 0 is the page's own colour.
type style struct {
	bold, faint, italic, underlined, reversed bool
	text, ground                              int // 30–37 and 90–97
}

// classes returns the CSS classes of a style, "" for plain text: a1 bold, a2 faint, a3 italic, a4 underlined, a31 red text, b31 red
// ground. A reversed style has text and ground exchanged, or the class rv alone if it has no colours.
func (s style) classes() string {
	text, ground := s.text, s.ground
	if s.reversed {
		text, ground = ground, text
		if text == 0 && ground == 0 {
			return "rv"
		}
	}
	var all []string
	for i, is := range []bool{s.bold, s.faint, s.italic, s.underlined} {
		if is {
			all = append(all, "a"+strconv.Itoa(i+1))
		}
	}
	if text != 0 {
		all = append(all, "a"+strconv.Itoa(text))
	}
	if ground != 0 {
		all = append(all, "b"+strconv.Itoa(ground))
	}
	return strings.Join(all, " ")
}

// set applies the parameters of a sequence, such as 1;38;5;208, to s, in order. An empty or zero parameter resets s. A parameter
// that it does not know, and a sequence with a ?, changes nothing.
func (s *style) set(parameters string) {
	if strings.ContainsRune(parameters, '?') {
		return
	}
	codes := strings.Split(strings.ReplaceAll(parameters, ":", ";"), ";")
	for i := 0; i < len(codes); i++ {
		code, _ := strconv.Atoi(codes[i]) // an empty parameter means 0
		switch {
		case code == 0:
			*s = style{}
		case code == 1:
			s.bold = true
		case code == 2:
			s.faint = true
		case code == 3:
			s.italic = true
		case code == 4:
			s.underlined = true
		case code == 7:
			s.reversed = true
		case code == 22:
			s.bold, s.faint = false, false
		case code == 23:
			s.italic = false
		case code == 24:
			s.underlined = false
		case code == 27:
			s.reversed = false
		case code == 39:
			s.text = 0
		case code == 49:
			s.ground = 0
		case code >= 30 && code <= 37 || code >= 90 && code <= 97:
			s.text = code
		case code >= 40 && code <= 47 || code >= 100 && code <= 107:
			s.ground = code - 10
		case code == 38:
			i += extended(codes[i+1:], &s.text)
		case code == 48:
			i += extended(codes[i+1:], &s.ground)
		}
	}
}

// extended parses the parameters after 38 or 48: 5;N for one of 256 colours, or 2;R;G;B. It sets colour to the nearest of the
// sixteen, and returns the number of parameters that it used. Missing parameters count as 0. If the first is neither 5 nor 2, it
// skips that one and leaves colour as it is.
func extended(codes []string, colour *int) int {
	number := func(i int) int {
		if i >= len(codes) {
			return 0
		}
		n, _ := strconv.Atoi(codes[i])
		return min(max(n, 0), 255)
	}
	switch number(0) {
	case 5:
		*colour = ofPalette(number(1))
		return min(2, len(codes))
	case 2:
		*colour = nearest(number(1), number(2), number(3))
		return min(4, len(codes))
	}
	return min(1, len(codes))
}

// ofPalette returns the code of the nearest of the sixteen for number n of xterm's 256 colours: sixteen, a cube of 6×6×6, and 24
// greys.
func ofPalette(n int) int {
	switch {
	case n < 8:
		return 30 + n
	case n < 16:
		return 90 + n - 8
	case n < 232:
		level := func(v int) int {
			if v == 0 {
				return 0
			}
			return 55 + 40*v
		}
		n -= 16
		return nearest(level(n/36), level(n/6%6), level(n%6))
	}
	grey := 8 + 10*(n-232)
	return nearest(grey, grey, grey)
}

// sixteen are the usual RGB values of the colour codes.
var sixteen = []struct{ code, red, green, blue int }{
	{30, 0, 0, 0},
	{31, 205, 0, 0},
	{32, 0, 205, 0},
	{33, 205, 205, 0},
	{34, 0, 0, 238},
	{35, 205, 0, 205},
	{36, 0, 205, 205},
	{37, 229, 229, 229},
	{90, 127, 127, 127},
	{91, 255, 80, 80},
	{92, 80, 255, 80},
	{93, 255, 255, 80},
	{94, 92, 92, 255},
	{95, 255, 80, 255},
	{96, 80, 255, 255},
	{97, 255, 255, 255},
}

func nearest(red, green, blue int) int {
	best, least := 0, 1<<30
	for _, c := range sixteen {
		r, g, b := c.red-red, c.green-green, c.blue-blue
		if far := 2*r*r + 4*g*g + 3*b*b; far < least {
			best, least = c.code, far
		}
	}
	return best
}
