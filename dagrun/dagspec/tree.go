package dagspec

import (
	"iter"
	"math"
	"strings"
)

// kind is what a node holds.
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

// node is one value of a file and where it stands. Aliases share nodes.
type node struct {
	kind  kind
	at    pos
	value any    // bool, int64, float64 or string
	raw   string // of a number: as it was written
	block bool   // a string over several lines (| or >)
	items []*node
	keys  []*node // of a map, beside items; strings
	bad   bool    // reported already: later checks leave it out
	size  int     // nodes in it, itself included
}

// get is the value of a key, nil where the node is no map, has no such key, or its value is bad.
func (n *node) get(key string) *node {
	if _, v := n.find(key); v != nil && !v.bad {
		return v
	}
	return nil
}

// find is the key and the value, good or bad.
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

// has says whether a key is written, good or bad.
func (n *node) has(key string) bool {
	_, v := n.find(key)
	return v != nil
}

// in follows keys down.
func (n *node) in(keys ...string) *node {
	for _, k := range keys {
		n = n.get(k)
	}
	return n
}

// fields are the good entries of a map.
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

// list are the good items of a list.
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

// text is the string a node holds, "" for anything else.
func (n *node) text() string {
	if n == nil || n.bad {
		return ""
	}
	s, _ := n.value.(string)
	return s
}

// pos is where the node stands; nil stands nowhere.
func (n *node) pos() pos {
	if n == nil {
		return pos{}
	}
	return n.at
}

// plain is the node as encoding/json would decode it, but for integers, which are int64.
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

// measure fills size from the children's.
func (n *node) measure() *node {
	n.size = 1 + len(n.keys)
	for _, v := range n.items {
		n.size += v.size
	}
	return n
}

// maxLocated bounds the lines, in bytes, that parts of strings are looked for in.
const maxLocated = 64 << 10

// locate is where a part of a string stands in the file: the place of its first appearance from the node on, or the
// node itself where escapes or folding hide it.
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

// byteColumn turns a column in characters into an offset.
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

// setFloat reads 5.0 and 1e2 as the integers they are: a store may print them so.
func (n *node) setFloat(f float64) {
	n.kind, n.value = kindFloat, f
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		n.kind, n.value = kindInt, int64(f)
	}
}
