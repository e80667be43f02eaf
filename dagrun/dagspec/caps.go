package dagspec

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// Limits of the input.
const (
	MaxBytes     = 1 << 20  // of a file, inclusive
	MaxJSONBytes = 64 << 20 // of the input of ParseJSON or FromJSON
	MaxDepth     = 100      // of lists and maps within each other
	MaxKeys      = 5000     // of one map in block style
	MaxAliases   = 1000     // in a file
	MaxAliased   = 10_000   // nodes that aliases add
)

const bom = "\uFEFF"

// checkBytes refuses input that no parser should get: too long, with NUL, or not in UTF-8.
func checkBytes(r *report, src []byte, limit int) bool {
	switch i, bad := bytes.IndexByte(src, 0), invalidUTF8(src); {
	case len(src) > limit:
		r.add(pos{1, 1}, "a DAG file is at most "+bytesText(limit)+": move large data out of it",
			"the file is too large: %d bytes", len(src))
	case bytes.HasPrefix(src, []byte("\xff\xfe")) || bytes.HasPrefix(src, []byte("\xfe\xff")):
		r.add(pos{}, "save it as UTF-8", "the file is UTF-16")
	case i >= 0:
		r.add(offsetPos(src, i), "remove it; is this a text file?", "a NUL byte")
	case bad >= 0:
		r.add(offsetPos(src, bad), "save the file as UTF-8", "byte 0x%02x is not valid UTF-8", src[bad])
	case len(bytes.TrimSpace(bytes.TrimPrefix(src, []byte(bom)))) == 0:
		r.add(pos{1, 1}, "a DAG has at least a name and one step", "the file is empty")
	default:
		return true
	}
	return false
}

func bytesText(n int) string {
	return fmt.Sprintf("%d MiB", n>>20)
}

func invalidUTF8(src []byte) int {
	if utf8.Valid(src) {
		return -1
	}
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// offsetPos converts an offset in bytes into a position.
func offsetPos(src []byte, offset int) pos {
	before := strings.TrimPrefix(string(src[:offset]), bom)
	line := strings.LastIndexByte(before, '\n') + 1
	return pos{strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[line:]) + 1}
}

// checkTokens refuses values nested too deep and maps with too many keys, before the parser sees them: it would recurse too
// deep, or take minutes. checkTokens only counts brackets and columns. The limits are checked exactly once the tree is
// built.
func checkTokens(r *report, tokens token.Tokens) bool {
	flow, marks := 0, 0
	var blocks blocks
	for _, t := range tokens {
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow = max(0, flow-1)
		case token.SequenceEntryType, token.MappingKeyType:
			blocks.entry(t.Position.Column)
		case token.MappingValueType:
			if flow == 0 && t.Prev != nil {
				blocks.key(t.Prev.Position.Column)
			}
		}
		if marks++; t.Type != token.TagType && t.Type != token.AnchorType {
			marks = 0
		}
		if flow+len(blocks) > 4*MaxDepth || marks > MaxDepth {
			r.add(tokenPos(t), "flatten it", "nested more than %d levels deep", MaxDepth)
			return false
		}
		if n := len(blocks); n > 0 && blocks[n-1].keys > MaxKeys {
			r.add(tokenPos(t), "split it up", "more than %d keys in one map", MaxKeys)
			return false
		}
	}
	return true
}

// blocks is a stack of the open lists and maps in block style, each with its column.
type blocks []struct{ col, keys int }

// entry opens a list entry. It ends the entry before and every block further right.
func (b *blocks) entry(col int) {
	b.cut(func(c, keys int) bool { return c > col || c == col && keys == 0 })
	*b = append(*b, struct{ col, keys int }{col, 0})
}

// key opens or continues a map.
func (b *blocks) key(col int) {
	b.cut(func(c, keys int) bool { return c > col || c == col && keys == 0 })
	if n := len(*b); n > 0 && (*b)[n-1].col == col {
		(*b)[n-1].keys++
		return
	}
	*b = append(*b, struct{ col, keys int }{col, 1})
}

func (b *blocks) cut(ended func(col, keys int) bool) {
	for n := len(*b); n > 0 && ended((*b)[n-1].col, (*b)[n-1].keys); n-- {
		*b = (*b)[:n-1]
	}
}

func tokenPos(t *token.Token) pos {
	if t == nil || t.Position == nil {
		return pos{1, 1}
	}
	return pos{t.Position.Line, t.Position.Column}
}
