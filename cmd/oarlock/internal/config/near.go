package config

import (
	"fmt"
	"strings"
)

// minPrefix is the length from which a word that begins a name counts as near to it: as near as the whole name with one
// wrong letter.
const minPrefix = 3

// Near returns the name that is most like word, or "" when no name is near enough to be the intended one.
func Near(word string, names []string) string {
	best, least := "", min(max(1, len(word)/3), len(word)-1)+1
	for _, name := range names {
		d := distance(strings.ToLower(word), strings.ToLower(name))
		if len(word) >= minPrefix && strings.HasPrefix(name, word) {
			d = 1
		}
		if d < least {
			best, least = name, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of neighbours that turn a into b.
func distance(a, b string) int {
	before, last := []int(nil), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
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
