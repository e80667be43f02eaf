package dagspec

import (
	"iter"
	"math"
	"strings"
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

// get returns the value of a key. It returns nil if the node is no map, has no such key, or the value is bad.
func (n *node) get(key string) *node {
	if _, v := n.find(key); v != nil && !v.bad {
		return v
	}
	return nil
}

// find returns a key and its value, good or bad.
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

// has reports whether a key is written, with a good or a bad value.
func (n *node) has(key string) bool {
	_, v := n.find(key)
	return v != nil
}

// in returns the node at the end of a path of keys.
func (n *node) in(keys ...string) *node {
	for _, k := range keys {
		n = n.get(k)
	}
	return n
}

// fields returns the good entries of a map.
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

// list returns the good items of a list.
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

// text returns the string of a node, or "" for any other node.
func (n *node) text() string {
	if n == nil || n.bad {
		return ""
	}
	s, _ := n.value.(string)
	return s
}

// pos returns the position of the node. A nil node has none.
func (n *node) pos() pos {
	if n == nil {
		return pos{}
	}
	return n.at
}

// plain converts the node to the types of encoding/json, except that integers are int64.
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

// measure computes size from the sizes of the children.
func (n *node) measure() *node {
	n.size = 1 + len(n.keys)
	for _, v := range n.items {
		n.size += v.size
	}
	return n
}

// maxLocated limits the bytes of lines in which locate searches a part of a string.
const maxLocated = 64 << 10

// locate returns the position of a part of a string in the file: its first appearance from the node on. It returns the
// position of the node if escapes or folding hide the part.
func (r *report) locate(n *node, part string) pos {
	at := n.pos()
	if at.line == 0 || part == "" {
		return at
	}
	part, _, _ = strings.Cut(part, "\n")
	if len(r.lines[min(at.line, len(r.lines))-1]) > maxLocated {
		return at
	}
	last := at.line + strings.Count(n.text(), "\n") + 2
	for line := at.line; line <= min(last, len(r.lines)); line++ {
		from := 0
		if line == at.line {
			from = byteColumn(r.lines[line-1], at.col)
		}
		if i := strings.Index(r.lines[line-1][from:], part); i >= 0 {
			return pos{line, len([]rune(r.lines[line-1][:from+i])) + 1}
		}
	}
	return at
}

// byteColumn converts a column in characters into an offset.
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

// setFloat stores a number. It stores 5.0 and 1e2 as integers, because a store may print integers in that form.
func (n *node) setFloat(f float64) {
	n.kind, n.value = kindFloat, f
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		n.kind, n.value = kindInt, int64(f)
	}
}
