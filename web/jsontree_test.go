package web

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestJSONTree_KeepsWhatWasWritten(t *testing.T) {
	t.Parallel()
	tree, err := jsonTree(json.RawMessage(`{"big": 12345678901234567890.10, "list": [true, null, {"a b": "<x>"}], "none": {}}`))
	if err != nil {
		t.Fatal(err)
	}
	big, list, none := tree.Children[0], tree.Children[1], tree.Children[2]
	if big.Text != "12345678901234567890.10" || big.Kind != "number" || big.Path != ".big" {
		t.Errorf("%+v", big)
	}
	if list.Count != 3 || list.Children[0].Text != "true" || list.Children[1].Text != "null" || list.Children[2].Children[0].Path != ".list[2].a b" {
		t.Errorf("%+v", list)
	}
	if none.Kind != "object" || none.Count != 0 {
		t.Errorf("%+v", none)
	}
	for _, nothing := range []string{"", "null", " {} "} {
		if tree, err := jsonTree(json.RawMessage(nothing)); tree != nil || err != nil {
			t.Errorf("%q: %+v, %v", nothing, tree, err)
		}
	}
}

func TestJSONTree_IsBounded(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"wide": "[" + strings.Repeat(`{"a": [1, 2]},`, 2000) + "1]",
		"deep": strings.Repeat(`{"a":`, 500) + "1" + strings.Repeat("}", 500),
		"long": `"` + strings.Repeat("é", maxText) + `"`,
	} {
		tree, err := jsonTree(json.RawMessage(raw))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		nodes, deepest, longest := measure(tree, 0)
		if nodes > maxNodes+1 || deepest > maxDepth || longest > maxText+40 {
			t.Errorf("%s: %d nodes, %d deep, a text of %d bytes", name, nodes, deepest, longest)
		}
		if tree.Raw != raw {
			t.Errorf("%s: all of it is not there to be copied", name)
		}
	}
}

func measure(n *jsonNode, depth int) (nodes, deepest, longest int) {
	nodes, deepest, longest = 1, depth, len(n.Text)
	for _, c := range n.Children {
		more, deep, long := measure(c, depth+1)
		nodes, deepest, longest = nodes+more, max(deepest, deep), max(longest, long)
	}
	return nodes, deepest, longest
}
