package dagspec

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	fault "github.com/santhosh-tekuri/jsonschema/v6/kind"
)

//go:embed schema.json
var schemaText []byte

// Schema returns a copy of the JSON Schema (draft 7) of DAG files.
func Schema() []byte { return bytes.Clone(schemaText) }

const schemaURL = "dag.json"

var schema = sync.OnceValue(func() *compiledSchema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaText))
	if err != nil {
		panic(fmt.Sprintf("dagspec: embedded schema: %v", err))
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(schemaURL, doc); err != nil {
		panic(fmt.Sprintf("dagspec: embedded schema: %v", err))
	}
	return &compiledSchema{doc: doc, validator: c.MustCompile(schemaURL)}
})

type compiledSchema struct {
	doc       any
	validator *jsonschema.Schema
}

// at returns the part of the schema that a URL points to, as errors of the validator give it. It returns nil if that is no object.
func (s *compiledSchema) at(url string) map[string]any {
	_, pointer, _ := strings.Cut(url, "#")
	at := s.doc
	for _, token := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		if token == "" {
			continue
		}
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(unescape(token))
		switch v := at.(type) {
		case map[string]any:
			at = v[token]
		case []any:
			i, _ := strconv.Atoi(token)
			at = v[i]
		}
	}
	m, _ := at.(map[string]any)
	return m
}

// structure reports every mistake that the schema finds, and marks the bad nodes of the tree, so that later checks skip them.
func (r *report) structure(root *node) {
	err := schema().validator.Validate(root.plain())
	if failed, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		s := structure{report: r, root: root, lists: map[*node][]*node{}, maps: map[*node]map[string]*node{}}
		s.walk(failed)
		for _, n := range s.marks {
			n.bad = true
		}
	}
}

type structure struct {
	*report
	root  *node
	lists map[*node][]*node
	maps  map[*node]map[string]*node
	marks []*node // bad nodes; they are marked at the end, because a location counts the items that were good before
}

func (s *structure) walk(e *jsonschema.ValidationError) {
	n, key := s.follow(e.InstanceLocation)
	for _, cause := range e.Causes {
		s.walk(cause)
	}
	if len(e.Causes) == 0 {
		s.leaf(n, key, e)
	}
}

// follow returns the node at a location of the validator, and the last key on the way there: "" if there is none.
func (s *structure) follow(location []string) (*node, string) {
	n, key := s.root, ""
	for _, token := range location {
		if n.kind == kindMap {
			n, key = s.entry(n, token), token
			continue
		}
		i, _ := strconv.Atoi(token)
		n = s.item(n, i)
	}
	return n, key
}

func (s *structure) entry(n *node, key string) *node {
	entries, ok := s.maps[n]
	if !ok {
		entries = make(map[string]*node, len(n.keys))
		for k, v := range n.fields() {
			entries[k.text()] = v
		}
		s.maps[n] = entries
	}
	return entries[key]
}

// item returns item i of a list, not counting items that were marked as bad before the schema was asked: the validator has not seen
// these.
func (s *structure) item(n *node, i int) *node {
	items, ok := s.lists[n]
	if !ok {
		items = slices.Collect(n.list())
		s.lists[n] = items
	}
	return items[i]
}

// leaf reports one mistake that the schema found in n, and puts n on the list of nodes to be marked as bad. key is the last key on
// the way to n. A missing key of the DAG or of a step does not make that bad, so that later checks look at the rest of it.
func (s *structure) leaf(n *node, key string, e *jsonschema.ValidationError) {
	part := schema().at(e.SchemaURL)
	title, _ := part["title"].(string)
	switch k := e.ErrorKind.(type) {
	case *fault.AdditionalProperties:
		for _, name := range k.Properties {
			s.unknownKey(n, name, part)
		}
		return
	case *fault.Required:
		for _, name := range k.Missing {
			s.add(n.pos(), missingHint(name, title), "%s is missing", name)
		}
		if len(e.InstanceLocation) == 0 || strings.HasSuffix(e.SchemaURL, "/definitions/step") {
			return // n is not marked as bad: later checks look at the rest of it
		}
	case *fault.Enum:
		hint, _ := nearest(n.text(), words(k.Want))
		if key == "secrets" {
			hint = "write [" + n.text() + "] for the secret of that name"
		}
		s.add(n.pos(), hint, "%s must be %s, not %s", subject(key), oneOf(words(k.Want)), n.show())
	case *fault.MinItems, *fault.MinProperties:
		s.add(n.pos(), emptyHint(title), "%s is empty", subject(key))
	case *fault.MinLength:
		s.add(n.pos(), emptyHint(title), "%s is empty", subject(key))
	case *fault.UniqueItems:
		s.add(n.pos(), "remove one of the two", "%s has the same item twice", subject(key))
	case *fault.MaxItems:
		s.add(n.pos(), "split it up", "%s has %d items: at most %d", subject(key), k.Got, k.Want)
	case *fault.MaxProperties:
		s.add(n.pos(), emptyHint(title), "%s must be %s", subject(key), title)
	case *fault.MaxLength:
		s.add(n.pos(), "make it shorter", "%s has %d characters: at most %d", subject(key), k.Got, k.Want)
	case *fault.Type:
		if title == "" {
			title = noun(k.Want)
		}
		s.mismatch(n, key, title, k.Want)
	default:
		s.mismatch(n, key, title, nil)
	}
	s.marks = append(s.marks, n)
}

// mismatch reports a value of the wrong type. title is the schema's words for a right value, and want its types.
func (s *structure) mismatch(n *node, key, title string, want []string) {
	if n.kind == kindNull {
		s.add(n.pos(), "write a value after the key, or remove the key", "%s has no value", subject(key))
		return
	}
	s.add(n.pos(), mismatchHint(n, key, title, want), "%s must be %s, not %s", subject(key), title, n.show())
}

// unknownKey reports a key that the schema does not know in the map n, and puts the key with its value on the list of nodes to be
// marked as bad. part is the part of the schema for n.
func (s *structure) unknownKey(n *node, name string, part map[string]any) {
	k, v := n.find(name)
	if k == nil {
		return
	}
	s.marks = append(s.marks, k, v)
	if rule, ok := part["$comment"].(string); ok {
		s.add(k.pos(), rule, "%q is no name", name)
		return
	}
	properties, _ := part["properties"].(map[string]any)
	known := make([]string, 0, len(properties))
	for p := range properties {
		known = append(known, p)
	}
	slices.Sort(known)
	s.add(k.pos(), unknownKeyHint(name, known), "unknown key %q", name)
}
