package config

import (
	"fmt"
	"strings"

	"github.com/oarlock-dev/oarlock/internal/spelling"
)

// minPrefix is the length from which a word that begins a name counts as near to it: as near as the whole name with one
// wrong letter.
const minPrefix = 3

// Near returns the name that is most like word, or "" if none is near. At most a third of the letters of word may be wrong, or one;
// case makes no difference. A word of minPrefix letters or more is also near to each name that begins with it.
func Near(word string, names []string) string {
	best, least := "", min(max(1, len(word)/3), len(word)-1)+1
	for _, name := range names {
		d := spelling.Distance(strings.ToLower(word), strings.ToLower(name))
		if len(word) >= minPrefix && strings.HasPrefix(name, word) {
			d = 1
		}
		if d < least {
			best, least = name, d
		}
	}
	return best
}

// DidYouMean returns a hint with the name that is most like word, or "" when no name is near.
func DidYouMean(word string, names []string) string {
	if name := Near(word, names); name != "" {
		return fmt.Sprintf("did you mean %q?", name)
	}
	return ""
}

// OrList joins names for a sentence: a, b or c.
func OrList(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
