package web

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// apiContract is the OpenAPI document. Its objects may have no fields besides those that it names.
type apiContract struct {
	doc      map[string]any
	compiler *jsonschema.Compiler
}

func loadContract(t *testing.T) *apiContract {
	t.Helper()
	text, err := yaml.YAMLToJSON(apiDocument)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := &apiContract{doc: object(doc), compiler: jsonschema.NewCompiler()}
	closeObjects(c.doc, "")
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	return c
}

// object returns a part of the document; an empty one where the document lacks it.
func object(part any) map[string]any {
	o, _ := part.(map[string]any)
	return o
}

// closeObjects makes schemas refuse fields that they do not name, except for schemas that others extend.
func closeObjects(part any, name string) {
	switch part := part.(type) {
	case map[string]any:
		if _, has := part["properties"].(map[string]any); has && name != "RunFields" {
			part["unevaluatedProperties"] = false
		}
		if name == "Run" {
			part["unevaluatedProperties"] = false
		}
		for key, value := range part {
			if key != "properties" {
				closeObjects(value, key)
				continue
			}
			for _, schema := range object(value) {
				closeObjects(schema, "")
			}
		}
	case []any:
		for _, value := range part {
			closeObjects(value, "")
		}
	}
}

var pathField = regexp.MustCompile(`\{[a-z]+\}`)

// pathOf returns the document's path and operation for a request.
func (c *apiContract) pathOf(t *testing.T, method, target string) string {
	t.Helper()
	_, rest, _ := strings.Cut(target, apiRoot)
	rest, _, _ = strings.Cut(rest, "?")
	for path, methods := range object(c.doc["paths"]) {
		if _, has := object(methods)[strings.ToLower(method)]; has && regexp.MustCompile("^"+pathField.ReplaceAllString(path, "[^/]+")+"$").MatchString(rest) {
			return path
		}
	}
	t.Fatalf("the document has no %s %s", method, target)
	return ""
}

// response returns the document's schema of an answer, and the place in the document.
func (c *apiContract) response(t *testing.T, method, path string, status int) (response map[string]any, at []string) {
	t.Helper()
	at = []string{"paths", path, strings.ToLower(method), "responses"}
	all := object(object(object(object(c.doc["paths"])[path])[at[2]])["responses"])
	key := strconv.Itoa(status)
	if all[key] == nil {
		if key = "default"; status < http.StatusBadRequest {
			t.Fatalf("%s %s has no response %d", method, path, status)
		}
	}
	response, at = object(all[key]), append(at, key)
	if ref, ok := response["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/components/responses/")
		response, at = object(object(object(c.doc["components"])["responses"])[name]), []string{"components", "responses", name}
	}
	return response, at
}

// check requires an answer to fit the document.
func (c *apiContract) check(t *testing.T, method, target string, w *httptest.ResponseRecorder) {
	t.Helper()
	response, at := c.response(t, method, c.pathOf(t, method, target), w.Code)
	kind, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
	content := object(response["content"])
	if content[kind] == nil {
		t.Fatalf("%s %s: %d of type %q, which the document does not know", method, target, w.Code, kind)
	}
	if kind != jsonType && kind != "application/jsonl" {
		return
	}
	at = append(at, "content", kind, "schema")
	for i := range at {
		at[i] = strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(at[i])
	}
	schema, err := c.compiler.Compile("openapi.json#/" + strings.Join(at, "/"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(w.Body.String()) {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		if err == nil {
			err = schema.Validate(value)
		}
		if err != nil {
			t.Errorf("%s %s: %d %s\n%v", method, target, w.Code, line, err)
		}
	}
}

func TestOpenAPI_NamesEachPath(t *testing.T) {
	t.Parallel()
	c := loadContract(t)
	documented, served := map[string][]string{}, map[string][]string{}
	for path, methods := range object(c.doc["paths"]) {
		for method, operation := range object(methods) {
			if method == "parameters" {
				continue
			}
			names := []string{}
			parameters, _ := object(operation)["parameters"].([]any)
			for _, p := range parameters {
				if p := object(p); p["in"] == "query" {
					names = append(names, p["name"].(string))
				}
			}
			slices.Sort(names)
			documented[strings.ToUpper(method)+" "+path] = names
		}
	}
	b := &server{}
	for _, route := range b.apiRoutes() {
		names := slices.Sorted(slices.Values(route.query))
		served[route.method+" "+route.path] = append([]string{}, names...)
	}
	if diff := cmp.Diff(documented, served); diff != "" {
		t.Errorf("- documented, + served\n%s", diff)
	}
}

func TestOpenAPI_NamesEachField(t *testing.T) {
	t.Parallel()
	c := loadContract(t)
	bodies := map[string]any{"/runs": &enqueueBody{}}
	for _, verb := range steerVerbs {
		bodies["/runs/{run}/"+verb.String()] = newAskBody(verb)
	}
	for path, methods := range object(c.doc["paths"]) {
		operation := object(object(methods)["post"])
		if operation == nil {
			continue
		}
		schema := object(object(object(object(operation["requestBody"])["content"])[jsonType])["schema"])
		if ref, ok := schema["$ref"].(string); ok {
			schema = object(object(object(c.doc["components"])["schemas"])[strings.TrimPrefix(ref, "#/components/schemas/")])
		}
		documented := slices.Sorted(maps.Keys(object(schema["properties"])))
		if diff := cmp.Diff(documented, slices.Sorted(slices.Values(fieldNames(reflect.TypeOf(bodies[path]).Elem())))); diff != "" {
			t.Errorf("%s: - documented, + read\n%s", path, diff)
		}
	}
}

func fieldNames(of reflect.Type) (names []string) {
	for f := range of.Fields() {
		if f.Anonymous {
			names = append(names, fieldNames(f.Type)...)
			continue
		}
		names = append(names, f.Tag.Get("json"))
	}
	return names
}
