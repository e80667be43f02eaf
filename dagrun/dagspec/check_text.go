package dagspec

import (
	"fmt"
	"regexp"
	"strings"
)

// use is a reference from one step to another.
type use struct {
	from string // id of the step that refers
	ref  ref
	in   *node
}

// text checks the references in a text.
func (c *checker) text(n *node, known *names) {
	if n == nil || n.kind != kindString {
		return
	}
	t, problems := parseTemplate(n.text())
	for _, p := range problems {
		c.problem(n, p)
	}
	for _, s := range t {
		if s.ref == nil {
			continue
		}
		_, p := known.check(*s.ref)
		if p == nil && s.ref.root() == "secrets" {
			c.asked[s.ref.path[1]] = true
			if s.orElse != nil {
				p = s.ref.wrong("remove the default: without the secret the task fails", "a secret has no default")
			}
		}
		if p != nil {
			c.problem(n, *p)
			continue
		}
		c.used(n, known, *s.ref)
	}
}

func (c *checker) problem(n *node, p problem) {
	at := n.pos()
	if !c.full() {
		at = c.locate(n, p.part)
	}
	c.add(at, p.hint, "%s", p.msg)
}

// used records a reference to another step, which reach checks once the graph is known.
func (c *checker) used(n *node, known *names, f ref) {
	id := f.step()
	if id == "" || known.self == "" || id == known.self || c.names.steps[id] == nil {
		return
	}
	c.uses = append(c.uses, use{known.self, f, n})
}

// texts checks all texts in a value, at any depth.
func (c *checker) texts(n *node, known *names) {
	c.text(n, known)
	for item := range n.list() {
		c.texts(item, known)
	}
	for _, v := range n.fields() {
		c.texts(v, known)
	}
}

// expression checks an expression.
func (c *checker) expression(n *node, known *names, want wanted) {
	if n == nil || n.kind != kindString {
		return
	}
	e, problems := known.compile(n.text(), want)
	for _, p := range problems {
		c.problem(n, p)
	}
	if e == nil {
		return
	}
	for _, f := range e.refs {
		c.used(n, known, f)
	}
}

var ours = regexp.MustCompile(`\$\{\s*(?:params|steps|env|run|secrets)\.[^}]*\}?`)

// noReferences refuses references in a field where they would not be filled in.
func (c *checker) noReferences(n *node) {
	if n == nil {
		return
	}
	for _, part := range ours.FindAllString(n.text(), -1) {
		hint := "references work in env, with, args, stdin, foreach.items, labels and name"
		if isSecret(part) {
			hint = secretPlaces
		}
		c.problem(n, problem{part, part + " is not filled in here", hint})
	}
}

// script refuses references in the text of run: their values would be executed as code.
func (c *checker) script(n *node, key string, known *names) {
	if n == nil {
		return
	}
	found := ours.FindAllString(n.text(), -1)
	if known.item != "" {
		own := regexp.MustCompile(`\$\{` + known.item + `(?:\.[^}]*)?\}`)
		found = append(found, own.FindAllString(n.text(), -1)...)
	}
	for _, part := range found {
		c.problem(n, problem{part, fmt.Sprintf("%s is not filled in inside %s: it would become code", part, key), scriptHint(part, key)})
	}
}

func isSecret(part string) bool { return strings.HasPrefix(strings.TrimLeft(part, "${ "), "secrets.") }

func scriptHint(part, key string) string {
	if key == "sql" && isSecret(part) {
		return "SQL takes no secret; the password of a database belongs into the worker's connections"
	}
	if key == "sql" {
		return "write $1 and add it to params:"
	}
	name := strings.Trim(part, "${} ")
	if field, ok := strings.CutPrefix(name, "env."); ok {
		return fmt.Sprintf("write \"$%s\"", field)
	}
	variable := strings.ToUpper(name[strings.LastIndexByte(name, '.')+1:])
	variable = strings.NewReplacer("-", "_").Replace(variable)
	if strings.HasPrefix(name, "params.") {
		return fmt.Sprintf("it is there as \"$PARAM_%s\"", variable)
	}
	return fmt.Sprintf("put it into env: {%s: \"${%s}\"} and write \"$%s\"", variable, name, variable)
}
