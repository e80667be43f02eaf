package dagspec

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// template is a text with references in it.
type template []span

// span is a literal or a reference.
type span struct {
	literal string
	ref     *ref
	orElse  *any // value of default(); nil: no default
}

var (
	refPattern = regexp.MustCompile(`^[a-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_-]+)*$`)
	pipePat    = regexp.MustCompile(`^(.*?)\s*\|\s*default\((.*)\)$`)
	callPat    = regexp.MustCompile(`^default\(\s*([^,]*?)\s*,(.*)\)$`)
)

// parseTemplate splits a text at its references; `$${` is a literal `${`.
func parseTemplate(text string) (template, []problem) {
	var t template
	var problems []problem
	literal := ""
	for text != "" {
		i := strings.Index(text, "${")
		if i < 0 {
			break
		}
		if i > 0 && text[i-1] == '$' {
			literal += text[:i-1] + "${"
			text = text[i+2:]
			continue
		}
		literal += text[:i]
		end := closing(text[i:])
		if end < 0 {
			problems = append(problems, problem{text[i:], "a reference without its closing brace", "close it with }, or write $${ for a literal ${"})
			return t, problems
		}
		s, p := parseSpan(text[i : i+end+1])
		if p != nil {
			problems = append(problems, *p)
		} else {
			t, literal = append(t, span{literal: literal}, s), ""
		}
		text = text[i+end+1:]
	}
	return append(t, span{literal: literal + text}), problems
}

// closing returns the index of the brace that ends a reference. It skips braces in a default value.
func closing(text string) int {
	quoted, depth := false, 0
	for i := 2; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '\n' && depth == 0:
			return -1
		case c == '}':
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return -1
}

// parseSpan reads `${ref}`, `${ref | default(json)}` and `${default(ref, json)}`.
func parseSpan(part string) (span, *problem) {
	body := strings.TrimSpace(part[2 : len(part)-1])
	var s span
	for _, form := range []*regexp.Regexp{callPat, pipePat} {
		m := form.FindStringSubmatch(body)
		if m == nil {
			continue
		}
		var value any
		if err := json.Unmarshal([]byte(m[2]), &value); err != nil {
			return s, &problem{part, "the value of default() is not JSON", `write "text", a number, true, false, null, [] or {}`}
		}
		value = wholeNumbers(value)
		body, s.orElse = m[1], &value
		break
	}
	if !refPattern.MatchString(body) {
		return s, &problem{part, fmt.Sprintf("%s is not a reference", part), referenceHint(body)}
	}
	s.ref = &ref{path: strings.Split(body, "."), part: part}
	return s, nil
}

func referenceHint(body string) string {
	switch {
	case body == "":
		return "write $${ for a literal ${"
	case refPattern.MatchString(strings.ToLower(body)), strings.ContainsAny(body, ":#%"):
		return "the shell's own variables work in run:; here write ${env.NAME}, or $${ for a literal ${"
	}
	return "references are names such as ${params.day} or ${steps.a.outputs.n}; to compute, do it in the step, or write $${ for a literal ${"
}

// refs returns the references of a text.
func (t template) refs() []ref {
	var list []ref
	for _, s := range t {
		if s.ref != nil {
			list = append(list, *s.ref)
		}
	}
	return list
}

// single returns the reference of a text that consists of one reference, or nil.
func (t template) single() *span {
	var only *span
	for i := range t {
		switch s := &t[i]; {
		case s.ref == nil && s.literal != "", s.ref != nil && only != nil:
			return nil
		case s.ref != nil:
			only = s
		}
	}
	return only
}

// wholeNumbers turns floats without a fraction back into integers: encoding/json decodes every number as a float.
func wholeNumbers(v any) any {
	switch x := v.(type) {
	case float64:
		n := &node{}
		n.setFloat(x)
		return n.value
	case []any:
		for i := range x {
			x[i] = wholeNumbers(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = wholeNumbers(x[k])
		}
	}
	return v
}
