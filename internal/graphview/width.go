package graphview

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/width"
)

const (
	zeroWidthJoiner = '\u200d'
	isolateStart    = "\u2068" // first strong isolate
	isolateEnd      = "\u2069" // pop directional isolate
)

// glyph is the content of one place on a terminal: a character and the marks that combine with it.
type glyph struct {
	text  string
	width int // 1 or 2
}

// glyphs splits clean text into glyphs.
func glyphs(s string) []glyph {
	var out []glyph
	joined, flag := false, false
	for _, r := range s {
		mark := joins(r)
		second := flag && regional(r)
		if (mark || joined || second) && len(out) > 0 {
			last := &out[len(out)-1]
			last.text += string(r)
			if second || r == '\ufe0f' || joined && runeWidth(r) == 2 {
				last.width = 2
			}
			joined, flag = r == zeroWidthJoiner, false
			continue
		}
		if mark {
			continue // a mark without a character before it
		}
		out = append(out, glyph{string(r), runeWidth(r)})
		flag = regional(r)
	}
	return out
}

func regional(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

// joins reports whether r takes no place of its own: combining marks, joiners, variation selectors, skin tones, and the
// vowels and finals of Hangul syllables.
func joins(r rune) bool {
	switch {
	case r < 0x300:
		return false
	case r >= 0x1160 && r <= 0x11ff, r >= 0x1f3fb && r <= 0x1f3ff:
		return true
	}
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf)
}

func runeWidth(r rune) int {
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Columns returns the width of a line on a terminal: a wide character takes two columns, a combining mark none.
func Columns(s string) int { return textWidth(s) }

func textWidth(s string) int {
	n := 0
	for _, g := range glyphs(s) {
		n += g.width
	}
	return n
}

// clean makes free text safe for one line of any output. It removes control characters, which a terminal obeys, and bidirectional
// overrides, which reorder the text after them. It writes bad UTF-8 as "?", and each run of white space as one blank.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError, r == 0xfffe, r == 0xffff:
			return '?'
		case unicode.Is(unicode.Bidi_Control, r), unicode.IsControl(r), r == '\u00ad', r == '\ufeff':
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return strings.Join(strings.Fields(s), " ")
}

// clip shortens clean text to at most limit columns. At the cut it puts the ellipsis, which counts too.
func clip(s string, limit int, ellipsis string) string {
	if textWidth(s) <= limit {
		return s
	}
	var b strings.Builder
	left := limit - textWidth(ellipsis)
	for _, g := range glyphs(s) {
		if left -= g.width; left < 0 {
			break
		}
		b.WriteString(g.text)
	}
	return strings.TrimRight(b.String(), " ") + ellipsis
}

// First returns the longest beginning of clean text that fits in a number of columns. A character and its marks stay
// together.
func First(s string, columns int) string {
	n := len(s) - len(strings.TrimLeftFunc(s, joins)) // marks without a character before them
	for _, g := range glyphs(s) {
		if columns -= g.width; columns < 0 {
			break
		}
		n += len(g.text)
	}
	return s[:n]
}

// Last returns the longest end of clean text that fits in a number of columns. A character and its marks stay together.
func Last(s string, columns int) string {
	n := 0
	for _, g := range slices.Backward(glyphs(s)) {
		if columns -= g.width; columns < 0 {
			break
		}
		n += len(g.text)
	}
	return s[len(s)-n:]
}

// Isolate puts marks around clean text that reads from right to left. On terminals that support text directions, the text
// beside it then keeps its order. The marks take no columns.
func Isolate(s string) string {
	if rightToLeft(s) {
		return isolateStart + s + isolateEnd
	}
	return s
}

// rightToLeft reports whether a text has a character that reads from right to left, and so would reorder the text around it.
func rightToLeft(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		p, _ := bidi.LookupRune(r)
		return p.Class() == bidi.R || p.Class() == bidi.AL || p.Class() == bidi.AN
	})
}
