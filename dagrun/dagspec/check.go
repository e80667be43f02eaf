package dagspec

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// checker finds mistakes that the schema cannot express. It walks the Spec and the tree side by side: both hold the same
// valid nodes, in the same order.
type checker struct {
	*report
	spec  *Spec
	root  *node
	names *names
	uses  []use           // references to steps, checked once the graph is known
	asked map[string]bool // secrets that at least one body gets
}

// checkSpec reports all mistakes in a spec that the schema accepts.
func checkSpec(r *report, spec *Spec, root *node) {
	c := &checker{report: r, spec: spec, root: root, names: newNames(spec), asked: map[string]bool{}}
	c.names.vague = findVague(root)
	c.dag()
	c.params()
	c.secrets()
	steps := slices.Collect(root.get("steps").list())
	for i := range spec.Steps {
		c.step(&spec.Steps[i], steps[i])
	}
	for _, h := range spec.HandlerOn.all() {
		n := root.in("handler_on", h.key)
		c.body(h.step, n, "", c.names.of(h.step).at(h.place))
	}
	c.graph(steps)
	c.unasked()
}

// vague records the parts of a file that could not be read. A reference to such a part is not reported as a second mistake.
type vague struct {
	ids     map[string]bool // IDs of steps that exist but have mistakes
	steps   bool            // at least one step has no id
	params  bool
	secrets bool
}

func findVague(root *node) vague {
	v := vague{ids: map[string]bool{}}
	_, steps := root.find("steps")
	_, params := root.find("params")
	for _, step := range steps.itemsOrNone() {
		_, id := step.find("id")
		if id == nil {
			v.steps = true
			continue
		}
		if id.bad || step.bad || step.unreadable() {
			v.ids[fmt.Sprint(id.value)] = true
		}
	}
	v.steps = v.steps || steps == nil || steps.bad
	v.params = unreadableList(root, params)
	_, secrets := root.find("secrets")
	v.secrets = unreadableList(root, secrets)
	for _, step := range steps.itemsOrNone() {
		if _, own := step.find("secrets"); own != nil {
			v.secrets = v.secrets || unreadableList(step, own)
		}
	}
	return v
}

// unreadableList reports whether a list may have more elements than could be read. list is nil if its map has no such key.
func unreadableList(of, list *node) bool {
	if list == nil {
		return of.unreadable()
	}
	return list.bad || slices.ContainsFunc(list.items, func(item *node) bool { return item.bad || item.unreadable() })
}

func (n *node) itemsOrNone() []*node {
	if n == nil {
		return nil
	}
	return n.items
}

// unreadable reports whether a map has a misspelt key or a bad value. If it has, a key that seems to be missing may be there
// after all.
func (n *node) unreadable() bool {
	if n.kind != kindMap {
		return false
	}
	for i, k := range n.keys {
		if (k.bad || n.items[i].bad) && k.value != "defaults" {
			return true
		}
	}
	return false
}

func (c *checker) dag() {
	n := c.root
	c.ownVariables(n.get("env"))
	c.texts(n.get("env"), c.names.withSecrets())
	c.noReferences(n.get("working_dir"))
	c.shell(n.get("shell"))
	for _, v := range n.get("labels").fields() {
		c.noReferences(v)
	}
	c.schedules()
}

func (c *checker) params() {
	seen := map[string]pos{}
	nodes := slices.Collect(c.root.get("params").list())
	for i := range c.spec.ParamDefs {
		p, n := &c.spec.ParamDefs[i], nodes[i]
		if c.twice(seen, p.Name, n.get("name"), "param") {
			continue
		}
		if n.get("type") == nil && n.has("type") {
			continue
		}
		c.param(p, n)
	}
}

// twice reports a name that was used before. It returns true if it did.
func (c *checker) twice(seen map[string]pos, name string, n *node, what string) bool {
	if n == nil {
		return false
	}
	if first, again := seen[name]; again {
		hint := "give it another name"
		if what == "dependency" {
			hint = "remove one"
		}
		c.add(n.pos(), hint, "%s %q is there twice, first on line %d", what, name, first.line)
		return true
	}
	seen[name] = n.pos()
	return false
}

func (c *checker) param(p *Param, n *node) {
	if p.Required && p.Default != nil {
		c.add(n.get("default").pos(), "remove one of the two", "param %q is required and has a default", p.Name)
	}
	for item := range n.get("enum").list() {
		if _, err := p.coerce(item.plain()); err != nil {
			c.add(item.pos(), "", "enum of param %q: %v", p.Name, err)
		}
	}
	if _, err := regexp.Compile(p.Pattern); err != nil {
		c.add(n.get("pattern").pos(), "see https://golang.org/s/re2syntax", "pattern of param %q: %s", p.Name, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		return
	}
	if p.Minimum != nil && p.Maximum != nil && *p.Minimum > *p.Maximum || p.MinLength != nil && p.MaxLength != nil && *p.MinLength > *p.MaxLength {
		c.add(n.pos(), "swap them", "the least of param %q is more than its most", p.Name)
		return
	}
	c.applies(p, n)
	if p.Default != nil {
		if _, err := p.accept(p.Default); err != nil {
			c.add(n.get("default").pos(), "", "default of param %q %v", p.Name, err)
		}
	}
}

// applies refuses limits that do not apply to a param's type, because they would have no effect.
func (c *checker) applies(p *Param, n *node) {
	for _, key := range []string{"minimum", "maximum", "min_length", "max_length", "pattern"} {
		numeric := strings.HasSuffix(key, "imum")
		fits := numeric && (p.Type == "integer" || p.Type == "number") || !numeric && p.Type == "string"
		if v := n.get(key); v != nil && !fits {
			hint := "it applies to strings"
			if numeric {
				hint = "it applies to integers and numbers"
			}
			c.add(v.pos(), hint, "%s does nothing for a param of type %s", key, p.Type)
		}
	}
}
