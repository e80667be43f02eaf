package dagspec

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// readJSON parses a JSON text into a tree.
func readJSON(r *report, src []byte) *node {
	src = bytes.TrimPrefix(src, []byte(bom))
	j := &jsonReader{report: r, src: src, dec: json.NewDecoder(bytes.NewReader(src)), line: 1, col: 1}
	j.dec.UseNumber()
	root, err := j.value(0)
	if err == nil && !r.failed() {
		if _, more := j.dec.Token(); more != io.EOF {
			r.add(j.here(), "one DAG per file", "something follows the end of the JSON text")
		}
	}
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		r.add(offsetPos(src, int(min(syntax.Offset, int64(len(src))))), "check the commas and the quotes", "not valid JSON: %s", syntax)
	case err != nil && !errors.Is(err, errStop):
		r.add(offsetPos(src, len(src)), "close what was opened", "not valid JSON: %v", err)
	}
	if err != nil {
		return nil
	}
	return root
}

var errStop = errors.New("stop")

// jsonReader reads tokens and tracks the position as it goes, so that it walks through a large file only once.
type jsonReader struct {
	*report
	src       []byte
	dec       *json.Decoder
	offset    int // the offset of line and col
	line, col int
}

// here returns the position of the next token.
func (j *jsonReader) here() pos {
	to := int(j.dec.InputOffset())
	for to < len(j.src) && strings.IndexByte(" \t\r\n,:", j.src[to]) >= 0 {
		to++
	}
	for j.offset < to {
		_, n := utf8.DecodeRune(j.src[j.offset:])
		if j.src[j.offset] == '\n' {
			j.line, j.col = j.line+1, 0
		}
		j.offset, j.col = j.offset+n, j.col+1
	}
	return pos{j.line, j.col}
}

func (j *jsonReader) value(depth int) (*node, error) {
	n := &node{at: j.here(), size: 1}
	if depth > MaxDepth {
		j.add(n.at, "flatten it", "nested more than %d levels deep", MaxDepth)
		return nil, errStop
	}
	t, err := j.dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := t.(type) {
	case json.Delim:
		if v == '{' {
			return j.object(n, depth)
		}
		return j.array(n, depth)
	case bool:
		n.kind, n.value = kindBool, v
	case string:
		n.kind, n.value = kindString, v
		j.refuseNUL(n)
	case json.Number:
		j.number(n, v)
	}
	return n, nil
}

func (j *jsonReader) refuseNUL(n *node) {
	if strings.ContainsRune(n.text(), 0) {
		j.add(n.at, "remove it", "a NUL character")
		n.bad = true
	}
}

// number stores a number. Integers stay exact.
func (j *jsonReader) number(n *node, v json.Number) {
	n.raw = v.String()
	if i, err := v.Int64(); err == nil {
		n.kind, n.value = kindInt, i
		return
	}
	f, err := v.Float64()
	if err != nil || strings.Trim(n.raw, "-0123456789") == "" {
		j.add(n.at, "quote it", "%s is too large for a number", n.raw)
		n.bad = true
		return
	}
	n.setFloat(f)
}

func (j *jsonReader) object(n *node, depth int) (*node, error) {
	n.kind = kindMap
	seen := map[string]pos{}
	for j.dec.More() {
		key := &node{kind: kindString, at: j.here(), size: 1}
		t, err := j.dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string) // the key of an object is always a string
		key.value = name
		j.refuseNUL(key)
		v, err := j.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if first, twice := seen[name]; twice {
			j.add(key.at, "merge the two", "the key %q is given twice, first on line %d", t, first.line)
			continue
		}
		seen[name] = key.at
		n.keys, n.items = append(n.keys, key), append(n.items, v)
	}
	_, err := j.dec.Token()
	return n.measure(), err
}

func (j *jsonReader) array(n *node, depth int) (*node, error) {
	n.kind = kindList
	for j.dec.More() {
		v, err := j.value(depth + 1)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, v)
	}
	_, err := j.dec.Token()
	return n.measure(), err
}
