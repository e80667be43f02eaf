package term

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// StripControl returns a line of another program's output, made safe to print: escape sequences and control characters are left
// out, except for tabs, and characters that change the direction of text become U+FFFD. If colours is set, colour sequences stay,
// and the line ends with a reset. If the program overwrote the line after carriage returns, only the text after the last one stays,
// as on a screen.
func StripControl(line string, colours bool) string {
	line = strings.TrimRight(line, "\r")
	line = line[strings.LastIndexByte(line, '\r')+1:]
	var b strings.Builder
	coloured := false
	for len(line) > 0 {
		if line[0] == '\x1b' {
			sequence := escape(line)
			if colours && isColour(sequence) {
				b.WriteString(sequence)
				coloured = true
			}
			line = line[len(sequence):]
			continue
		}
		r, n := utf8.DecodeRuneInString(line)
		switch {
		case r == '\t':
			b.WriteByte('\t')
		case r < ' ' || r == '\x7f': // invisible: left out
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			b.WriteRune(utf8.RuneError)
		default:
			b.WriteRune(r)
		}
		line = line[n:]
	}
	if coloured {
		b.WriteString("\x1b[0m")
	}
	return b.String()
}

// escape returns the control sequence at the beginning of text, which must begin with the escape character. It returns all of text
// if the sequence has no end.
func escape(text string) string {
	if len(text) == 1 {
		return text
	}
	switch text[1] {
	case '[': // up to a final byte
		for i := 2; i < len(text); i++ {
			if text[i] >= '@' && text[i] <= '~' {
				return text[:i+1]
			}
		}
		return text
	case ']', 'P', 'X', '^', '_': // a string, up to its terminator
		if end := strings.IndexAny(text[2:], "\a\x1b"); end >= 0 {
			return text[:2+end+1]
		}
		return text
	}
	_, n := utf8.DecodeRuneInString(text[1:])
	return text[:1+n]
}

func isColour(sequence string) bool {
	return strings.HasPrefix(sequence, "\x1b[") && strings.HasSuffix(sequence, "m") && strings.Trim(sequence[2:len(sequence)-1], "0123456789;:") == ""
}
