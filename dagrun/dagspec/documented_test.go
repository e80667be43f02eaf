package dagspec

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const languagePage = "../../docs/language.md"

// pageSections lists the sections of the page with the keys of each part of the schema. A heading of the second level includes the
// sections below it.
var pageSections = map[string][]string{
	"#":                                 {"## The run", "## Schedules"},
	"#/definitions/step":                {"## A step"},
	"#/definitions/with.http.request":   {"### http.request"},
	"#/definitions/with.postgres.query": {"### postgres.query"},
	"#/definitions/with.dag.run":        {"### dag.run and dag.enqueue"},
	"#/definitions/with.dag.enqueue":    {"### dag.run and dag.enqueue"},
	"#/definitions/with.river.job":      {"### river.job"},
	"#/definitions/with.approval":       {"### approval"},
	"#/definitions/with.wait":           {"### wait"},
	"#/definitions/with.noop":           {"### noop"},
}

// The page has a row for each key of the schema, and for no other. Each row has a type with a default, a meaning, and an example
// that the schema accepts.
func TestLanguage_HasEachKey(t *testing.T) {
	t.Parallel()
	page := readText(t, languagePage)
	known := map[string]map[string]string{} // by section and key: the places in the schema
	for name := range schema().at("#/definitions") {
		if place := "#/definitions/" + name; strings.HasPrefix(name, "with.") && pageSections[place] == nil {
			t.Errorf("say in pageSections which section of %s is about %s", languagePage, name)
		}
	}
	for place, sections := range pageSections {
		title := strings.Join(sections, " ")
		if known[title] == nil {
			known[title] = map[string]string{}
		}
		keysBelow(place, "", known[title])
	}
	schemas := jsonschema.NewCompiler()
	if err := schemas.AddResource(schemaURL, schema().doc); err != nil {
		t.Fatal(err)
	}
	for place, sections := range pageSections {
		title := strings.Join(sections, " ")
		rows := keyRows(t, page, sections)
		for key, at := range known[title] {
			row, ok := rows[key]
			if !ok {
				t.Errorf("%s, %s: there is no row for `%s`", languagePage, title, key)
				continue
			}
			if why := wrongExample(schemas, known[title], key, row.example); why != "" {
				t.Errorf("%s, %s: the example of `%s`, %s: %s", languagePage, title, key, at, why)
			}
		}
		for key := range rows {
			if known[title][key] == "" {
				t.Errorf("%s, %s: the schema has no key `%s`, see %s", languagePage, title, key, place)
			}
		}
	}
}

// ownTables are the parts of the schema that have rows of their own, or the same keys as a step.
var ownTables = []string{"step", "handler", "replacement", "asked", "publish", "step_secret", "input"}

// keysBelow collects the keys below a place of the schema: limit of retry_policy as retry_policy.limit.
func keysBelow(place, prefix string, all map[string]string) {
	at := schema().at(place)
	if to, ok := at["$ref"].(string); ok {
		name := strings.TrimPrefix(to, "#/definitions/")
		if prefix != "" && (slices.Contains(ownTables, name) || strings.HasPrefix(name, "step/")) {
			return
		}
		keysBelow(to, prefix, all)
		return
	}
	props, _ := at["properties"].(map[string]any)
	for key := range props {
		all[prefix+key] = place + "/properties/" + key
		keysBelow(place+"/properties/"+key, prefix+key+".", all)
	}
	for _, inner := range []string{"items", "then", "else"} {
		if _, ok := at[inner].(map[string]any); ok {
			keysBelow(place+"/"+inner, prefix, all)
		}
	}
}

// keyRow is a row of a table of keys.
type keyRow struct{ kind, meaning, example string }

const keyHeader = "| key | type, default | meaning | example |"

var keyLine = regexp.MustCompile("^\\| `([a-z_.]+)` \\| ([^|]+, [^|]+) \\| ([^|]+) \\| `([^`]+)` \\|$")

// keyRows returns the rows of the tables of keys in some sections of a page.
func keyRows(t *testing.T, page string, sections []string) map[string]keyRow {
	t.Helper()
	rows := map[string]keyRow{}
	for _, title := range sections {
		inside := false
		for line := range strings.SplitSeq(sectionOf(t, page, title), "\n") {
			if !strings.HasPrefix(line, "|") || line == keyHeader {
				inside = line == keyHeader
				continue
			}
			if !inside || strings.HasPrefix(line, "|---") {
				continue
			}
			m := keyLine.FindStringSubmatch(line)
			if m == nil || rows[m[1]] != (keyRow{}) {
				t.Errorf("%s: write one row for each key, such as | `key` | text, none | It does … | `key: value` |, and not %s", title, line)
				continue
			}
			rows[m[1]] = keyRow{m[2], m[3], m[4]}
		}
	}
	return rows
}

// sectionOf returns the text from a heading to the next heading of its level or above.
func sectionOf(t *testing.T, page, title string) string {
	t.Helper()
	_, text, ok := strings.Cut(page, "\n"+title+"\n")
	if !ok {
		t.Fatalf("%s has no heading %q", languagePage, title)
	}
	end := regexp.MustCompile(`(?m)^#{1,` + strconv.Itoa(strings.Count(title, "#")) + `} `).FindStringIndex(text)
	if end == nil {
		return text
	}
	return text[:end[0]]
}

// wrongExample explains what is wrong with the example of a key, or returns "". The example begins with the key or, as
// retry_policy: {limit: 3} for retry_policy.limit, with a map around the key.
func wrongExample(schemas *jsonschema.Compiler, places map[string]string, key, example string) string {
	parts := strings.Split(key, ".")
	r := newReport("", []byte(example))
	root := readYAML(r, []byte(example))
	if root == nil || r.failed() || root.kind != kindMap || len(root.keys) != 1 {
		return "it is not `key: value`"
	}
	first := root.keys[0].text()
	at := slices.Index(parts, first)
	if at < 0 || !strings.Contains(example, parts[len(parts)-1]+":") {
		return "it does not have the key"
	}
	check, err := schemas.Compile(schemaURL + places[strings.Join(parts[:at+1], ".")])
	if err == nil {
		err = check.Validate(root.items[0].plain())
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// leastDAG names each map that has defaults, and sets no key that has one.
const leastDAG = `
name: least
params: [{name: p}]
schedule: [{cron: '0 3 * * *', catchup: true}]
steps:
  - id: a
    run: "true"
    kill: {}
    retry_policy: {}
    foreach: {items: [x]}
    cache: {key: '"k"'}
`

// The defaults of the page are the defaults of the parser.
func TestLanguage_HasTheDefaults(t *testing.T) {
	t.Parallel()
	spec, err := Parse("least.yaml", []byte(leastDAG))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var whole map[string]any
	if err := json.Unmarshal(text, &whole); err != nil {
		t.Fatal(err)
	}
	steps := whole["steps"]
	delete(whole, "steps")
	page := readText(t, languagePage)
	checked := 0
	for _, part := range []struct {
		value    any
		sections []string
	}{{whole, pageSections["#"]}, {steps, pageSections["#/definitions/step"]}} {
		rows, values := keyRows(t, page, part.sections), map[string]string{}
		flatten(part.value, "", values)
		for key, value := range values {
			row, ok := rows[key]
			if !ok || strings.Contains(leastDAG, key[strings.LastIndexByte(key, '.')+1:]+":") {
				continue
			}
			checked++
			_, standard, _ := strings.Cut(row.kind, ", ")
			if words := strings.Fields(strings.NewReplacer("`", "", ";", "", ",", "").Replace(standard)); !slices.Contains(words, value) {
				t.Errorf("%s says of `%s` %q, and the parser makes it %s", languagePage, key, row.kind, value)
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d defaults were compared", checked)
	}
}

// flatten collects the texts of all scalars of a value under their keys, as keysBelow writes them.
func flatten(value any, key string, all map[string]string) {
	switch v := value.(type) {
	case map[string]any:
		for k, inner := range v {
			flatten(inner, strings.TrimPrefix(key+"."+k, "."), all)
		}
	case []any:
		for _, inner := range v {
			flatten(inner, key, all)
		}
	default:
		all[key] = fmt.Sprint(v)
	}
}

// Each fenced YAML block of the page is a whole DAG without mistakes.
func TestLanguage_ExamplesAreValid(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(readText(t, languagePage), -1)
	for _, block := range blocks {
		if _, err := Parse("language.md", []byte(block[1])); err != nil {
			t.Errorf("%v\n%s", err, block[1])
		}
	}
	if len(blocks) < 30 {
		t.Errorf("%s has only %d examples", languagePage, len(blocks))
	}
}

// The page must state the same facts as the descriptions of the schema.
func TestSchema_SaysWhatThePageSays(t *testing.T) {
	t.Parallel()
	page := readText(t, languagePage)
	for key, facts := range map[string][2]string{ // in the description, and in the row of the page
		"max_active_runs":  {"0 = no limit", "0 is no limit"},
		"max_active_steps": {"0 = no limit", "0 is no limit"},
		"timeout":          {"from its first start, parked time excluded", "from its first start, parked time excluded"},
	} {
		if got, _ := schema().at("#/properties/" + key)["description"].(string); !strings.Contains(got, facts[0]) {
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
