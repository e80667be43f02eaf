package dagspec

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// schemaNode is a node of the schema with its keys and their descriptions.
type schemaNode struct {
	Description string
	Properties  map[string]*schemaNode
	Items       *schemaNode
	Definitions map[string]*schemaNode
	Then, Else  *schemaNode
}

// keys collects the keys that a file may use at this place and below.
func (n *schemaNode) keys(all map[string]bool) {
	if n == nil {
		return
	}
	for name, p := range n.Properties {
		all[name] = true
		p.keys(all)
	}
	for _, inner := range []*schemaNode{n.Items, n.Then, n.Else} {
		inner.keys(all)
	}
}

var (
	documentedSpan = regexp.MustCompile("`[^`]+`|(?s)```yaml.*?```")
	documentedWord = regexp.MustCompile(`[a-z_]+`)
)

// The page of the language must mention each key of a file as code.
func TestSchema_EachKeyIsDocumented(t *testing.T) {
	t.Parallel()
	var schema schemaNode
	if err := json.Unmarshal([]byte(readText(t, "schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	page := readText(t, "../../docs/language.md")
	words := map[string]bool{}
	for _, span := range documentedSpan.FindAllString(page, -1) {
		for _, word := range documentedWord.FindAllString(span, -1) {
			words[word] = true
		}
	}
	for place, n := range schema.Definitions {
		if place == "with.river.job" { // refused when it is applied
			continue
		}
		keys := map[string]bool{}
		n.keys(keys)
		for key := range keys {
			if !words[key] {
				t.Errorf("docs/language.md has no `%s`, a key of %s", key, place)
			}
		}
	}
	for key := range schema.Properties {
		if !words[key] {
			t.Errorf("docs/language.md has no `%s`, a key of a DAG", key)
		}
	}
	if strings.Contains(page, "as their names say") {
		t.Error("docs/language.md leaves keys to their names")
	}
}

// The page must state the same facts as the descriptions of the schema.
func TestSchema_SaysWhatThePageSays(t *testing.T) {
	t.Parallel()
	var schema schemaNode
	if err := json.Unmarshal([]byte(readText(t, "schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	page := readText(t, "../../docs/language.md")
	for key, facts := range map[string][2]string{ // in the description, and in the row of the page
		"max_active_runs":  {"0 = no limit", "0 is no limit"},
		"max_active_steps": {"0 = no limit", "0 is no limit"},
		"timeout":          {"from its first start, parked time excluded", "from its first start, parked time excluded"},
	} {
		if got := schema.Properties[key].Description; !strings.Contains(got, facts[0]) {
			t.Errorf("schema.json says of %s: %q, want %q", key, got, facts[0])
		}
		rows := strings.Split(page, "\n")
		if !slices.ContainsFunc(rows, func(row string) bool {
			return strings.HasPrefix(row, "| ") && strings.Contains(row, "`"+key+"`") && strings.Contains(row, facts[1])
		}) {
			t.Errorf("docs/language.md has no row of %s that says %q", key, facts[1])
		}
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
