package dagspec

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// kind is the kind of a node's value.
type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindInt
	kindFloat
	kindString
	kindList
	kindMap
)

// node is one value of a file with its position. Aliases share nodes.
type node struct {
	kind  kind
	at    pos
	value any    // bool, int64, float64 or string
	raw   string // of a number: its text in the file
	block bool   // a string over several lines (| or >)
	items []*node
	keys  []*node // of a map, parallel to items; always strings
	bad   bool    // reported already: later checks skip it
	size  int     // number of nodes in it, itself included
}

// get returns the value of a key. It returns nil if the node is nil or no map, has no such key, or the value is bad.
func (n *node) get(key string) *node {
	if _, v := n.find(key); v != nil && !v.bad {
		return v
	}
	return nil
}

// find returns a key and its value, whether they are good or bad. It returns nil twice if the node is no map, is nil, or has no
// such key.
func (n *node) find(key string) (*node, *node) {
	if n == nil || n.kind != kindMap {
		return nil, nil
	}
	for i, k := range n.keys {
		if k.value == key {
			return k, n.items[i]
		}
	}
	return nil, nil
}

// has reports whether a map has a key, with a good or a bad value.
func (n *node) has(key string) bool {
	_, v := n.find(key)
	return v != nil
}

// in follows a path of keys by get, and returns nil if it ends early.
func (n *node) in(keys ...string) *node {
	for _, k := range keys {
		n = n.get(k)
	}
	return n
}

// fields yields the keys and values of a map, without entries in which one is bad. It yields nothing for nil and for any other
// node.
func (n *node) fields() iter.Seq2[*node, *node] {
	return func(yield func(k, v *node) bool) {
		if n == nil || n.kind != kindMap {
			return
		}
		for i, k := range n.keys {
			if !k.bad && !n.items[i].bad && !yield(k, n.items[i]) {
				return
			}
		}
	}
}

// list yields the items of a list that are not bad. It yields nothing for nil and for any other node.
func (n *node) list() iter.Seq[*node] {
	return func(yield func(*node) bool) {
		if n == nil || n.kind != kindList {
			return
		}
		for _, v := range n.items {
			if !v.bad && !yield(v) {
				return
			}
		}
	}
}

// text returns the text of a string. For nil, a bad node and any other kind of node it returns "".
func (n *node) text() string {
	if n == nil || n.bad {
		return ""
	}
	s, _ := n.value.(string)
	return s
}

// pos returns the position of the node in the file, and no position for nil.
func (n *node) pos() pos {
	if n == nil {
		return pos{}
	}
	return n.at
}

// plain converts the node to the types of encoding/json, except that integers are int64. It leaves out bad items and entries.
func (n *node) plain() any {
	switch n.kind {
	case kindList:
		list := make([]any, 0, len(n.items))
		for v := range n.list() {
			list = append(list, v.plain())
		}
		return list
	case kindMap:
		m := make(map[string]any, len(n.items))
		for k, v := range n.fields() {
			m[k.text()] = v.plain()
		}
		return m
	}
	return n.value
}

// measure sets n.size, for which the sizes of the items must be known, and returns n.
func (n *node) measure() *node {
	n.size = 1 + len(n.keys)
	for _, v := range n.items {
		n.size += v.size
	}
	return n
}

// maxLocated limits the bytes of lines in which locate searches a part of a string.
const maxLocated = 64 << 10

// locate returns the position of a part of a string in the file: its first appearance from the node on. YAML may fold the lines of a
// block, so it may find only the first words of a part of a block. It returns the position of the node if part is "", if escapes
// hide it, or if the line is longer than maxLocated.
func (r *report) locate(n *node, part string) pos {
	at := n.pos()
	if at.line == 0 || part == "" || len(r.lines[min(at.line, len(r.lines))-1]) > maxLocated {
		return at
	}
	part, _, _ = strings.Cut(part, "\n")
	if found, ok := r.find(n, part); ok {
		return found
	}
	words := strings.SplitN(part, " ", 4)
	for k := min(3, len(words)-1); n.block && k > 0; k-- {
		if found, ok := r.find(n, strings.Join(words[:k], " ")); ok {
			return found
		}
	}
	return at
}

// find returns where part first appears in a line, from the node on.
func (r *report) find(n *node, part string) (pos, bool) {
	at := n.at
	last := at.line + strings.Count(n.text(), "\n") + 2
	for line := at.line; line <= min(last, len(r.lines)); line++ {
		from := 0
		if line == at.line {
			from = byteColumn(r.lines[line-1], at.col)
		}
		if i := strings.Index(r.lines[line-1][from:], part); i >= 0 {
			return pos{line, len([]rune(r.lines[line-1][:from+i])) + 1}, true
		}
	}
	return at, false
}

// byteColumn converts a column in characters, from 1, into an offset in bytes. A column beyond the line becomes the length of the
// line.
func byteColumn(line string, col int) int {
	n := 1
	for i := range line {
		if n == col {
			return i
		}
		n++
	}
	return len(line)
}

// setFloat stores a number in n. It stores 5.0 and 1e2 as integers, because a store may print integers in that form.
func (n *node) setFloat(f float64) {
	n.kind, n.value = kindFloat, f
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		n.kind, n.value = kindInt, int64(f)
	}
}

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

// checkBytes returns true if a parser may get the input. It reports input that is longer than limit, empty, with a NUL byte, or not
// in UTF-8, and returns false.
func checkBytes(r *report, src []byte, limit int) bool {
	switch i, bad := bytes.IndexByte(src, 0), invalidUTF8(src); {
	case len(src) > limit:
		r.add(pos{1, 1}, "a DAG file is at most "+bytesText(limit)+": move large data out of it",
			"the file is too large: %d bytes", len(src))
	case bytes.HasPrefix(src, []byte("\xff\xfe")) || bytes.HasPrefix(src, []byte("\xfe\xff")):
		r.add(pos{}, "save the file as UTF-8", "the file is UTF-16")
	case i >= 0:
		r.add(offsetPos(src, i), "remove the NUL byte, or name a text file", "a NUL byte")
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

// invalidUTF8 returns the offset of the first byte that is not valid UTF-8, or -1.
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

// offsetPos converts an offset in bytes into a position. A byte order mark at the beginning of src has no column.
func offsetPos(src []byte, offset int) pos {
	before := strings.TrimPrefix(string(src[:offset]), bom)
	line := strings.LastIndexByte(before, '\n') + 1
	return pos{strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[line:]) + 1}
}

// checkTokens reports values nested too deep and maps with too many keys before the parser sees them, which would recurse too deep
// or take minutes. It returns false if it reports one. It only counts brackets and columns, so its limit for the depth is generous;
// builder.tree checks the exact one.
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

// entry opens an entry of a list at a column. It closes the entry before, and every list and map further right.
func (b *blocks) entry(col int) {
	b.cut(func(c, keys int) bool { return c > col || c == col && keys == 0 })
	*b = append(*b, struct{ col, keys int }{col, 0})
}

// key counts a key of the map at a column, and opens that map if it is the first. It closes every list and map further right, and a
// list at the same column.
func (b *blocks) key(col int) {
	b.cut(func(c, keys int) bool { return c > col || c == col && keys == 0 })
	if n := len(*b); n > 0 && (*b)[n-1].col == col {
		(*b)[n-1].keys++
		return
	}
	*b = append(*b, struct{ col, keys int }{col, 1})
}

// cut closes the innermost lists and maps, as long as ended says so.
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
