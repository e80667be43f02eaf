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

// Parse reads and checks a DAG file, YAML or JSON by its content. The error is an Errors with all problems found.
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

// looksLikeJSON leaves to YAML what only begins like JSON, unless the file's name insists.
func looksLikeJSON(path string, src []byte) bool {
	text := bytes.TrimLeft(bytes.TrimPrefix(src, []byte(bom)), " \t\r\n")
	return strings.HasSuffix(path, ".json") || bytes.HasPrefix(text, []byte("{")) && json.Valid(text)
}

// ParseJSON checks what a program hands in: as Parse, but JSON only and up to MaxJSONBytes.
func ParseJSON(src []byte) (*Spec, error) {
	r := newReport("", src)
	if !checkBytes(r, src, MaxJSONBytes) {
		return nil, r.err()
	}
	return check(r, readJSON(r, src))
}

// FromJSON reads a stored Spec. Its form is checked; that its parts fit together was checked when it was made.
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

// UnmarshalJSON is FromJSON.
func (s *Spec) UnmarshalJSON(src []byte) error {
	spec, err := FromJSON(src)
	if err == nil {
		*s = *spec
	}
	return err
}

// check turns a tree into a Spec, or into all that is wrong with it.
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

// spec decodes a tree, without what does not belong there.
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

// Hash names the content: equal for equal meaning, whatever the spelling of the file.
func (s *Spec) Hash() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("dagspec: a spec that cannot be written as JSON: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
