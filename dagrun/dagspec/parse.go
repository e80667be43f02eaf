package dagspec

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Parse reads and checks a DAG file. It detects YAML or JSON by the content. The error is an Errors with all problems found.
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

// looksLikeJSON reports whether a file is JSON. A file that only begins like JSON is YAML, unless its name ends in .json.
func looksLikeJSON(path string, src []byte) bool {
	text := bytes.TrimLeft(bytes.TrimPrefix(src, []byte(bom)), " \t\r\n")
	return strings.HasSuffix(path, ".json") || bytes.HasPrefix(text, []byte("{")) && json.Valid(text)
}

// ParseJSON checks JSON from a program. It is Parse for JSON only, with up to MaxJSONBytes.
func ParseJSON(src []byte) (*Spec, error) {
	r := newReport("", src)
	if !checkBytes(r, src, MaxJSONBytes) {
		return nil, r.err()
	}
	return check(r, readJSON(r, src))
}

// FromJSON reads a stored Spec. It checks the form against the schema, but not whether the parts fit together: that was
// checked before the Spec was stored.
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

// UnmarshalJSON implements json.Unmarshaler with FromJSON.
func (s *Spec) UnmarshalJSON(src []byte) error {
	spec, err := FromJSON(src)
	if err == nil {
		*s = *spec
	}
	return err
}

// check turns a tree into a Spec, or returns all its mistakes.
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

// spec decodes a tree. It leaves out nodes that the schema refuses.
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

// Hash returns a hash of the content. Files with the same meaning have the same hash, however they are written.
func (s *Spec) Hash() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("dagspec: a spec that cannot be written as JSON: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
