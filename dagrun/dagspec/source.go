package dagspec

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// source is an expression as it is written, and as the library reads it: with steps["a-b"] for steps.a-b.
type source struct {
	text   string
	read   string
	origin []int // index in text of each character of read, both in characters; nil: both are the same
}

// hyphenated matches a path into steps at its beginning, up to an id with hyphens.
var hyphenated = regexp.MustCompile(`^steps\s*(\??)\.\s*([a-z0-9_]+-[a-z0-9_-]*)`)

// readSource makes a source of an expression. All letters, digits, underscores and hyphens behind "steps." are the id of a step, as
// in references: a step is no number, so that no hyphen behind it can be a minus. Behind a later dot, as in steps.a.outputs.n-1, a
// hyphen stays a minus.
func readSource(text string) source {
	src := source{text: text, read: text}
	if !strings.Contains(text, "-") || !strings.Contains(text, "steps") {
		return src
	}
	var b strings.Builder
	copied, at := 0, 0 // in bytes, in characters: text up to there is in b
	write := func(part string, step int) {
		b.WriteString(part)
		for range utf8.RuneCountInString(part) {
			src.origin = append(src.origin, at)
			at += step
		}
	}
	for i := 0; i < len(text); {
		if end := pastQuoted(text, i); end > i {
			i = end
			continue
		}
		var m []string
		if strings.HasPrefix(text[i:], "steps") && beginsName(text[:i]) {
			m = hyphenated.FindStringSubmatch(text[i:])
		}
		if m == nil {
			i++
			continue
		}
		write(text[copied:i]+"steps", 1)
		from := at
		if m[1] != "" {
			write("?.", 0)
		}
		write(`["`, 0)
		at = from + len(m[0]) - len(m[2]) - len("steps")
		write(m[2], 1)
		write(`"]`, 0)
		i += len(m[0])
		copied = i
	}
	write(text[copied:], 1)
	src.read, src.origin = b.String(), append(src.origin, at)
	return src
}

// beginsName reports whether a name behind the given text is a whole name, and no part of a path such as item.steps.
func beginsName(before string) bool {
	last, _ := utf8.DecodeLastRuneInString(before)
	if last == '_' || last == '$' || unicode.IsLetter(last) || unicode.IsDigit(last) {
		return false
	}
	return !strings.HasSuffix(strings.TrimRightFunc(before, unicode.IsSpace), ".")
}

// from returns the rest of the text as it is written. It begins at the character that the library counted in the text that it reads.
func (s source) from(character int) string {
	if s.origin != nil {
		character = s.origin[min(character, len(s.origin)-1)]
	}
	runes := []rune(s.text)
	return string(runes[min(character, len(runes)):])
}
