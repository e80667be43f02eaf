package dagspec

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Parse reads and checks a DAG file. It detects JSON by the content or a path that ends in .json, and takes any other file for
// YAML. path is used for this and in errors only. If there are problems, the Spec is nil and the error an Errors with all of them.
func Parse(path string, src []byte) (*Spec, error) {
	r := newReport(path, src)
	if !checkBytes(r, src, MaxBytes) {
		return nil, r.err()
	}
	if looksLikeJSON(path, src) {
		return check(r, readJSON(r, src))
	}
	return check(r, readYAML(r, src))
}

// looksLikeJSON reports whether a file is to be read as JSON: its name ends in .json, or it is a valid JSON object. A file that
// only begins like JSON is YAML.
func looksLikeJSON(path string, src []byte) bool {
	text := bytes.TrimLeft(bytes.TrimPrefix(src, []byte(bom)), " \t\r\n")
	return strings.HasSuffix(path, ".json") || bytes.HasPrefix(text, []byte("{")) && json.Valid(text)
}

// ParseJSON reads and checks a DAG in JSON from a program. It takes up to MaxJSONBytes, where Parse takes MaxBytes. If there are
// problems, the Spec is nil and the error an Errors with all of them.
func ParseJSON(src []byte) (*Spec, error) {
	r := newReport("", src)
	if !checkBytes(r, src, MaxJSONBytes) {
		return nil, r.err()
	}
	return check(r, readJSON(r, src))
}

// FromJSON reads a stored Spec. It checks the form against the schema, but not whether the parts fit together: that was checked
// before the Spec was stored. After a mistake the Spec is nil and the error is, or wraps, an Errors.
func FromJSON(src []byte) (*Spec, error) {
	r := newReport("", src)
	if !checkBytes(r, src, MaxJSONBytes) {
		return nil, r.err()
	}
	root := readJSON(r, src)
	if root == nil || r.failed() {
		return nil, r.err()
	}
	spec := r.spec(root)
	if err := r.err(); err != nil {
		return nil, fmt.Errorf("read stored DAG: %w", err)
	}
	return spec, nil
}

// UnmarshalJSON implements json.Unmarshaler with FromJSON. After an error s is unchanged.
func (s *Spec) UnmarshalJSON(src []byte) error {
	spec, err := FromJSON(src)
	if err == nil {
		*s = *spec
	}
	return err
}

// check turns a tree into a Spec. If the report has any mistake, before or after, it returns nil and all of them as an Errors. root
// may be nil: then the report must say why.
func check(r *report, root *node) (*Spec, error) {
	if root == nil || root.bad {
		return nil, r.err()
	}
	spec := r.spec(root)
	checkSpec(r, spec, root)
	if err := r.err(); err != nil {
		return nil, err
	}
	return spec, nil
}

// spec decodes a tree into a Spec. It reports the mistakes that the schema finds, marks their nodes as bad, and leaves these out.
// It merges `defaults:` into the steps of the tree.
func (r *report) spec(root *node) *Spec {
	r.structure(root)
	if root.bad {
		return &Spec{}
	}
	mergeDefaults(root)
	spec := &Spec{}
	(&decoder{r}).decode(root, reflect.ValueOf(spec).Elem())
	return spec
}

// Hash returns a hash of the content, in hexadecimal. Files with the same meaning have the same hash, however they are written.
func (s *Spec) Hash() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("dagspec: a spec that cannot be written as JSON: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// readYAML parses a file into a tree, and reports mistakes to r. It returns nil if there is no usable document. After mistakes it
// may return a tree with bad nodes.
func readYAML(r *report, src []byte) *node {
	file := parseYAML(r, strings.TrimPrefix(string(src), bom))
	if file == nil {
		return nil
	}
	b := &builder{report: r, anchors: map[string]*node{}}
	var body ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.DirectiveType || doc.Body.Type() == ast.CommentType:
		case body != nil:
			r.add(tokenPos(doc.Body.GetToken()), "a file holds one DAG: move this document to another file", "a second document")
			return b.root(body)
		default:
			body = doc.Body
		}
	}
	if body == nil {
		r.add(pos{1, 1}, "a DAG has at least a name and one step", "the file is empty")
		return nil
	}
	return b.root(body)
}

// root returns the whole tree of a document, or nil if a limit was exceeded, which is then reported.
func (b *builder) root(body ast.Node) *node {
	root := b.tree(body, 0)
	if b.stopped {
		return nil
	}
	return root
}

// parseYAML parses a text by the YAML library. If it cannot be parsed, parseYAML reports why in our words, and returns nil. A panic
// of the library on odd input is such a mistake too.
func parseYAML(r *report, text string) (file *ast.File) {
	defer func() {
		if p := recover(); p != nil {
			r.add(pos{1, 1}, "quote texts with unusual characters", "this cannot be read as YAML")
			file = nil
		}
	}()
	tokens := lexer.Tokenize(text)
	if !checkTabs(r, text, tokens) || !checkTokens(r, tokens) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err == nil {
		return file
	}
	var syntax *yaml.SyntaxError
	if !errors.As(err, &syntax) {
		r.add(pos{1, 1}, "", "this cannot be read as YAML: %v", err)
		return nil
	}
	at, hint := tokenPos(syntax.Token), syntaxHint(syntax.Message)
	if cron := unquotedCron.FindStringSubmatch(r.lines[min(max(at.line, 1), len(r.lines))-1]); cron != nil {
		hint = fmt.Sprintf("quote it: %q", cron[1])
	}
	r.add(at, hint, "not valid YAML: %s", syntax.Message)
	return nil
}

// unquotedCron matches a cron expression that begins with a star. YAML reads the star as an alias.
var unquotedCron = regexp.MustCompile(`[:[-] +(\*(?:/[0-9]+)?(?: +[0-9A-Za-z*/,-]+){4})`)

// checkTabs reports the most common syntax error, a tab in the indentation, and then returns false. It looks only at a text that
// the lexer could not read; for any other text it returns true.
func checkTabs(r *report, text string, tokens token.Tokens) bool {
	if tokens.InvalidToken() == nil || !strings.Contains(text, "\t") {
		return true
	}
	for i, line := range r.lines {
		rest := strings.TrimLeft(line, " ")
		if strings.HasPrefix(rest, "\t") && strings.TrimSpace(rest) != "" && i+1 >= tokens.InvalidToken().Position.Line-1 {
			r.add(pos{i + 1, len(line) - len(rest) + 1}, "use spaces", "a tab in the indentation")
			return false
		}
	}
	return true
}

// syntaxHint returns a hint for a message of the YAML library.
func syntaxHint(msg string) string {
	switch {
	case strings.Contains(msg, "mapping value is not allowed"), strings.Contains(msg, "map key-value is pre-defined"):
		return "quote the text if it contains a colon, and check the indentation"
	case strings.Contains(msg, "reserved character"):
		return "quote the text"
	case strings.Contains(msg, "could not find end character"):
		return "close the quote"
	case strings.Contains(msg, "non-map value"), strings.Contains(msg, "unexpected key name"):
		return "check the indentation: is a colon missing after a key?"
	}
	return "check the indentation and the quotes"
}

// builder converts the library's nodes into nodes of this package, with aliases resolved.
type builder struct {
	*report
	anchors         map[string]*node
	aliases, copied int
	stopped         bool // a limit was exceeded: no further errors are reported
}

// tree converts a node of the library, which lies below depth lists and maps. It reports mistakes, and marks the nodes with
// mistakes as bad.
func (b *builder) tree(n ast.Node, depth int) *node {
	switch {
	case b.stopped || n == nil:
		return &node{bad: b.stopped, size: 1}
	case depth > MaxDepth:
		return b.stop(n, "flatten it", "nested more than %d levels deep", MaxDepth)
	}
	switch v := n.(type) {
	case *ast.MappingNode:
		return b.mapping(n, v.Values, depth)
	case *ast.MappingValueNode:
		return b.mapping(n, []*ast.MappingValueNode{v}, depth)
	case *ast.SequenceNode:
		list := &node{kind: kindList, at: tokenPos(v.GetToken())}
		for _, item := range v.Values {
			list.items = append(list.items, b.tree(item, depth+1))
		}
		return list.measure()
	case *ast.AnchorNode:
		target := b.tree(v.Value, depth)
		b.anchors[v.Name.GetToken().Value] = target
		return target
	case *ast.AliasNode:
		return b.alias(v)
	case *ast.TagNode:
		return b.tag(v, depth)
	}
	return b.scalar(n)
}

// stop reports an exceeded limit and ends the conversion: tree converts no further nodes. It returns a bad node.
func (b *builder) stop(n ast.Node, hint, format string, args ...any) *node {
	b.stopped = true
	b.add(tokenPos(n.GetToken()), hint, format, args...)
	return &node{bad: true, size: 1}
}

// refuse reports a mistake in a node, and returns a bad node in its place.
func (b *builder) refuse(n ast.Node, hint, format string, args ...any) *node {
	b.add(tokenPos(n.GetToken()), hint, format, args...)
	return &node{bad: true, at: tokenPos(n.GetToken()), size: 1}
}

// alias returns the node of the anchor that an alias names, which both then share. It stops the conversion if aliases add too many
// nodes.
func (b *builder) alias(v *ast.AliasNode) *node {
	name := v.Value.GetToken().Value
	target, ok := b.anchors[name]
	if !ok {
		return b.refuse(v, "define the anchor before the alias: &"+name, "no anchor &%s", name)
	}
	b.aliases++
	b.copied += target.size
	if b.aliases > MaxAliases || b.copied > MaxAliased {
		return b.stop(v, "write the values out, or generate the file as JSON",
			"too many aliases: at most %d, adding at most %d values", MaxAliases, MaxAliased)
	}
	return target
}

// tag converts a node with a tag. !!str turns a number into a text. A tag that matches the type of the value has no effect, and any
// other tag is refused.
func (b *builder) tag(v *ast.TagNode, depth int) *node {
	name := v.GetToken().Value
	n := b.tree(v.Value, depth)
	switch {
	case n.bad:
	case name == "!!str" && n.raw != "":
		return &node{kind: kindString, at: n.at, value: n.raw, size: 1}
	case name == "!!str" && n.kind == kindString, name == "!!map" && n.kind == kindMap, name == "!!seq" && n.kind == kindList,
		name == "!!int" && n.kind == kindInt, name == "!!float" && n.kind == kindFloat, name == "!!bool" && n.kind == kindBool:
	default:
		return b.refuse(v, "remove it", "the tag %s is not used here", name)
	}
	return n
}

func (b *builder) mapping(n ast.Node, values []*ast.MappingValueNode, depth int) *node {
	m := &node{kind: kindMap, at: tokenPos(n.GetToken())}
	if len(values) > 0 {
		m.at = earlier(tokenPos(values[0].Key.GetToken()), m.at)
	}
	seen := make(map[string]pos, len(values))
	var merged []*node
	for _, v := range values {
		if v.Key.IsMergeKey() {
			merged = append(merged, b.tree(v.Value, depth+1))
			continue
		}
		key := b.key(v.Key)
		if key == nil {
			continue
		}
		if first, twice := seen[key.text()]; twice {
			b.add(key.at, "merge the two", "the key %q is given twice, first on line %d", key.text(), first.line)
			continue
		}
		seen[key.text()] = key.at
		m.keys, m.items = append(m.keys, key), append(m.items, b.tree(v.Value, depth+1))
		if last := m.items[len(m.items)-1]; last.at == (pos{}) {
			last.at = key.at
		}
	}
	for _, source := range merged {
		b.merge(m, source, seen)
	}
	return m.measure()
}

// earlier returns the first of two positions in the file. If b has no line, it returns a.
func earlier(a, b pos) pos {
	if b.line > 0 && (b.line < a.line || b.line == a.line && b.col < a.col) {
		return b
	}
	return a
}

// merge adds to m the entries of source, which stands behind <<: a map or a list of maps. Keys in seen win, and merge adds the new
// keys to seen.
func (b *builder) merge(m, source *node, seen map[string]pos) {
	if source.kind == kindList {
		for item := range source.list() {
			b.merge(m, item, seen)
		}
		return
	}
	if source.kind != kindMap && !source.bad {
		b.add(source.at, "write a map after <<, such as <<: *base", "<< merges only maps")
	}
	for k, v := range source.fields() {
		if _, there := seen[k.text()]; !there {
			seen[k.text()] = k.at
			m.keys, m.items = append(m.keys, k), append(m.items, v)
		}
	}
}

// key reads a key, or reports why it cannot be one and returns nil. Keys are strings here: any other scalar becomes its text in the
// file.
func (b *builder) key(n ast.MapKeyNode) *node {
	t := n.GetToken()
	if mk, ok := n.(*ast.MappingKeyNode); ok {
		b.refuse(mk, "write key: value", "keys with ? are not used here")
		return nil
	}
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		b.refuse(n, "write the key out", "a key cannot be an anchor, alias or tag")
		return nil
	}
	if strings.ContainsRune(t.Value, 0) {
		b.refuse(n, "remove it", "a NUL character")
		return nil
	}
	return &node{kind: kindString, at: tokenPos(t), value: t.Value, size: 1}
}

var ambiguousOctal = regexp.MustCompile(`^[-+]?0[0-9_]+$`)

func (b *builder) scalar(n ast.Node) *node {
	out := &node{at: tokenPos(n.GetToken()), size: 1}
	switch v := n.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		out.kind, out.value = kindBool, v.Value
	case *ast.StringNode:
		out.kind, out.value = kindString, v.Value
		if t := v.GetToken(); t.Type == token.StringType && bigNumber.MatchString(v.Value) {
			return b.refuse(n, "quote it", "%s is too large for a number", v.Value)
		}
	case *ast.LiteralNode:
		out.kind, out.value, out.block = kindString, v.Value.Value, true
	case *ast.IntegerNode:
		return b.integer(n, v, out)
	case *ast.FloatNode:
		if out.raw = v.GetToken().Value; math.IsInf(v.Value, 0) {
			return b.refuse(n, "quote it", "%s is too large for a number", out.raw)
		}
		out.setFloat(v.Value)
	case *ast.InfinityNode, *ast.NanNode:
		return b.refuse(n, "quote the value if the value is a text", "%s is no number JSON can hold", n.GetToken().Value)
	default:
		return b.refuse(n, "quote the value if the value is a text", "this cannot be used as a value")
	}
	if s, ok := out.value.(string); ok && strings.ContainsRune(s, 0) {
		return b.refuse(n, "remove it", "a NUL character")
	}
	return out
}

var bigNumber = regexp.MustCompile(`^[-+]?[0-9]{19,}$`)

func (b *builder) integer(n ast.Node, v *ast.IntegerNode, out *node) *node {
	out.kind, out.raw = kindInt, v.GetToken().Value
	switch i := v.Value.(type) {
	case int64:
		out.value = i
	case uint64:
		if i > math.MaxInt64 {
			return b.refuse(n, "quote it", "%s is too large for a number", out.raw)
		}
		out.value = int64(i)
	default:
		return b.refuse(n, "quote it", "%s is too large for a number", out.raw)
	}
	if ambiguousOctal.MatchString(out.raw) {
		return b.refuse(n, `quote the value if the value is a text ("`+out.raw+`"), or write the number without the 0`,
			"%s is octal to some YAML readers and decimal to others", out.raw)
	}
	return out
}

// readJSON parses a JSON text into a tree. It reports mistakes to r, and returns nil if the text is no valid JSON or is nested too
// deep.
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
		r.add(offsetPos(src, len(src)), "close each bracket and quote", "not valid JSON: %v", err)
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

// here returns the position of the next token, which it does not read. It moves j.line and j.col to that position.
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

// number stores a number in n. An integer stays exact, a fraction becomes a float64, and a number that is too large for these is
// reported and marks n as bad.
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
