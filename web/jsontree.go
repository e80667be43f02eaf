package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Bounds of a tree. What exceeds them is left out or cut.
const (
	maxNodes = 500
	maxDepth = 12
	maxText  = 8 << 10 // bytes of one text
)

// jsonNode is a JSON value in a page: a scalar, or an object or array with children.
type jsonNode struct {
	Key      string
	Path     string // in the syntax of jq
	Text     string // of a scalar; a number keeps all its digits
	Kind     string // string, number, word, object or array
	Count    int
	Children []*jsonNode
	Raw      string // the whole JSON, for the copy button; only at the root
}

// jsonTree parses a JSON value into at most maxNodes nodes of at most maxDepth levels below the root, and leaves out the rest. It
// returns nil without an error if there is nothing to show: for no text, null and {}.
func jsonTree(raw json.RawMessage) (*jsonNode, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" || string(raw) == "{}" {
		return nil, nil //nolint:nilnil // there is nothing to show
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	t := treeReader{decoder: d}
	n, err := t.value("", "", 0)
	if err != nil {
		return nil, fmt.Errorf("read JSON of a run: %w", err)
	}
	n.Raw = string(raw)
	return n, nil
}

// readObject parses a JSON object that the user typed. Its numbers are json.Number, which keeps their digits. It returns nil
// without an error for an empty text.
func readObject(text string) (object map[string]any, err error) {
	if text = strings.TrimSpace(text); text == "" {
		return nil, nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&object) != nil || object == nil {
		return nil, errors.New("the text is no JSON object")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return object, nil
}

type treeReader struct {
	decoder *json.Decoder
	nodes   int
}

func (t *treeReader) value(key, path string, depth int) (*jsonNode, error) {
	token, err := t.decoder.Token()
	if err != nil {
		return nil, err
	}
	t.nodes++
	n := &jsonNode{Key: key, Path: path}
	switch v := token.(type) {
	case json.Delim:
		return n, t.children(n, v, depth)
	case string:
		n.Kind, n.Text = "string", cutText(v)
	case json.Number:
		n.Kind, n.Text = "number", v.String()
	case nil:
		n.Kind, n.Text = "word", "null"
	default:
		n.Kind, n.Text = "word", fmt.Sprint(v)
	}
	return n, nil
}

func (t *treeReader) children(n *jsonNode, open json.Delim, depth int) error {
	n.Kind = "array"
	if open == '{' {
		n.Kind = "object"
	}
	for t.decoder.More() {
		key, path := fmt.Sprint(n.Count), fmt.Sprintf("%s[%d]", n.Path, n.Count)
		if open == '{' {
			name, err := t.decoder.Token()
			if err != nil {
				return err
			}
			key = fmt.Sprint(name)
			path = n.Path + "." + key
		}
		n.Count++
		if t.nodes >= maxNodes || depth >= maxDepth {
			if err := t.skip(); err != nil {
				return err
			}
			continue
		}
		child, err := t.value(key, path, depth+1)
		if err != nil {
			return err
		}
		n.Children = append(n.Children, child)
	}
	_, err := t.decoder.Token()
	return err
}

// skip reads past the next value, which is not shown, so that the value after it can be read.
func (t *treeReader) skip() error {
	var raw json.RawMessage
	if err := t.decoder.Decode(&raw); err != nil {
		return fmt.Errorf("skip a value: %w", err)
	}
	return nil
}

func cutText(text string) string {
	if len(text) <= maxText {
		return text
	}
	return text[:maxText] + fmt.Sprintf("… (%d bytes)", len(text))
}
