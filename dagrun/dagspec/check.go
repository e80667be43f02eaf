package dagspec

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
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

	computes  int    // computed values so far
	constants *meter // of those without names; nil until the first
}

// checkSpec reports to r all mistakes that the schema cannot express. spec must have been decoded from root, and the schema must
// have marked the bad nodes of root: checkSpec skips these.
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

// findVague finds out which parts of a file could not be read, by the nodes that the schema has marked as bad.
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

// unreadableList reports whether a list may have more elements than could be read. list may be nil: then the map of has no such
// key, and the answer is whether that key may be misspelt.
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

// unreadable reports whether a map has a misspelt key or a bad value. If it has, a key that seems to be missing may be there after
// all. For a node that is no map it returns false.
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
	c.texts(n.get("env"), c.names.belowStep())
	c.noReferences(n.get("working_dir"))
	c.shell(n.get("shell"))
	for _, v := range n.get("labels").fields() {
		c.noReferences(v)
	}
	c.concurrency()
	c.spec.own(func(q quantity) { c.quantity(n, q) })
	c.schedules()
}

func (c *checker) params() {
	c.declarations(c.spec.ParamDefs, slices.Collect(c.root.get("params").list()), "param")
}

// declarations checks params, or inputs of an approval, which are declared alike. Messages call one of them by the word in what.
func (c *checker) declarations(defs []Param, nodes []*node, what string) {
	seen := map[string]pos{}
	for i := range defs {
		p, n := &defs[i], nodes[i]
		name := n.get("name")
		if n.kind == kindString {
			name = n
		}
		if c.twice(seen, p.Name, name, what) {
			continue
		}
		if n.get("type") == nil && n.has("type") {
			continue
		}
		c.param(p, n, what)
	}
}

// twice adds name to seen. If seen has it already, twice reports a mistake at n and returns true; the word for the kind of name in
// the message is what, such as "step". If n is nil, because the name could not be read, twice does nothing and returns false.
func (c *checker) twice(seen map[string]pos, name string, n *node, what string) bool {
	if n == nil {
		return false
	}
	if first, again := seen[name]; again {
		hint := "give this " + what + " another name"
		if what == "dependency" || what == "pool" {
			hint = "remove one of the two"
		}
		c.add(n.pos(), hint, "%s %q is there twice, first on line %d", what, name, first.line)
		return true
	}
	seen[name] = n.pos()
	return false
}

// param checks the declaration of a param or an input: its limits, its enum, its pattern, and whether the default keeps to them.
func (c *checker) param(p *Param, n *node, what string) {
	called := strings.TrimSpace(what + " " + p.quotedName())
	if p.Required && p.Default != nil {
		c.add(n.get("default").pos(), "remove one of the two", "%s is required and has a default", called)
	}
	for item := range n.get("enum").list() {
		if _, err := p.coerce(item.plain()); err != nil {
			c.add(item.pos(), "", "enum of %s: %v", called, err)
		}
	}
	if _, err := regexp.Compile(p.Pattern); err != nil {
		c.add(n.get("pattern").pos(), "see https://golang.org/s/re2syntax", "pattern of %s: %s", called, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		return
	}
	if p.Minimum != nil && p.Maximum != nil && *p.Minimum > *p.Maximum || p.MinLength != nil && p.MaxLength != nil && *p.MinLength > *p.MaxLength {
		c.add(n.pos(), "swap the two values", "the minimum of %s is more than its maximum", called)
		return
	}
	c.applies(p, n, what)
	if p.Default != nil {
		if _, err := p.accept(p.Default); err != nil {
			c.add(n.get("default").pos(), "", "default of %s %v", called, err)
		}
	}
}

// quotedName returns the name in quotes, and "" if it could not be read.
func (p *Param) quotedName() string {
	if p.Name == "" {
		return ""
	}
	return strconv.Quote(p.Name)
}

// applies reports limits of a param that do not apply to its type, such as minimum for a string, because they would have no effect.
func (c *checker) applies(p *Param, n *node, what string) {
	for _, key := range []string{"minimum", "maximum", "min_length", "max_length", "pattern"} {
		numeric := strings.HasSuffix(key, "imum")
		fits := numeric && (p.Type == "integer" || p.Type == "number") || !numeric && p.Type == "string"
		if v := n.get(key); v != nil && !fits {
			hint := "this key works only for strings"
			if numeric {
				hint = "this key works only for integers and numbers"
			}
			c.add(v.pos(), hint, "%s does nothing for %s %s of type %s", key, map[string]string{"param": "a", "input": "an"}[what], what, p.Type)
		}
	}
}

// links is the graph of the steps that could be read, by index. -1 stands for a parent that could not be read.
type links struct {
	parents  [][]edge
	children [][]edge
}

type edge struct {
	to        int
	succeeded bool
	at        *node
}

// graph reports steps with the same id, dependencies on unknown steps, cycles, and references to steps that need not have run. If
// there is a cycle, it does not look at references.
func (c *checker) graph(steps []*node) {
	index := make(map[string]int, len(steps))
	seen := make(map[string]pos, len(steps))
	for i := range c.spec.Steps {
		id := c.spec.Steps[i].ID
		if id == "" || c.twice(seen, id, steps[i].get("id"), "step") {
			continue
		}
		index[id] = i
	}
	g := links{make([][]edge, len(steps)), make([][]edge, len(steps))}
	for i := range c.spec.Steps {
		c.depends(i, steps[i], index, &g)
	}
	if c.cycles(&g) {
		return // with a cycle, there is no order of steps to check references by
	}
	c.reach(index, &g)
}

// depends reports mistakes in the dependencies of step i, which is n in the file, and adds the dependencies without mistakes to g.
// index holds the index of each step by id.
func (c *checker) depends(i int, n *node, index map[string]int, g *links) {
	nodes := slices.Collect(n.get("depends").list())
	seen := map[string]pos{}
	for k, d := range c.spec.Steps[i].Depends {
		at := nodes[k]
		if at.kind == kindMap {
			at = at.get("step")
		}
		parent, ok := index[d.Step]
		switch {
		case at == nil || !ok && (c.names.vague.ids[d.Step] || c.names.vague.steps):
		case !ok:
			c.unknownStep(at, d.Step, index)
		case parent == i:
			c.add(at.pos(), "remove it", "step %q depends on itself", d.Step)
		case c.twice(seen, d.Step, at, "dependency"):
		default:
			g.parents[i] = append(g.parents[i], edge{parent, d.State == "succeeded", at})
			g.children[parent] = append(g.children[parent], edge{i, d.State == "succeeded", at})
		}
	}
}

func (c *checker) unknownStep(at *node, id string, index map[string]int) {
	hint := ""
	if !c.full() {
		hint = knownHint(id, sortedKeys(index), "")
	}
	c.add(at.pos(), hint, "unknown step %q", id)
}

// cycles reports one cycle from each group of steps that wait for each other. It returns whether there is any.
func (c *checker) cycles(g *links) bool {
	missing := make([]int, len(g.parents))
	var free []int
	for i := range g.parents {
		if missing[i] = len(g.parents[i]); missing[i] == 0 {
			free = append(free, i)
		}
	}
	g.release(free, missing)
	found := false
	for i := range missing {
		if missing[i] <= 0 {
			continue
		}
		path := g.cycle(i, missing)
		c.add(path[0].at.pos(), "remove one of these dependencies", "steps wait for each other: %s", c.printCycle(path))
		found, free = true, nil
		for _, e := range path {
			missing[e.to] = 0
			free = append(free, e.to)
		}
		g.release(free, missing)
	}
	return found
}

// release counts down, for each child of the free steps, how many of its parents are missing. A child without missing parents
// becomes free as well, and release goes on with its children.
func (g *links) release(free, missing []int) {
	for k := 0; k < len(free); k++ {
		for _, child := range g.children[free[k]] {
			if missing[child.to]--; missing[child.to] == 0 {
				free = append(free, child.to)
			}
		}
	}
}

// cycle returns the edges of one cycle, each from a step to its parent. It walks from start to parents that still wait, by missing,
// until it meets a step again. It always does, because each step that waits has a parent that waits.
func (g *links) cycle(start int, missing []int) []edge {
	at, seen := start, map[int]int{}
	var path []edge
	for {
		if first, again := seen[at]; again {
			return path[first:]
		}
		seen[at] = len(path)
		k := slices.IndexFunc(g.parents[at], func(e edge) bool { return missing[e.to] > 0 })
		path = append(path, g.parents[at][k])
		at = g.parents[at][k].to
	}
}

// printCycle formats a cycle of links.cycle as "a -> b -> a", parents first. It begins with the step of the cycle that comes first
// in the file.
func (c *checker) printCycle(path []edge) string {
	order := make([]int, len(path))
	for i, e := range path {
		order[len(path)-1-i] = e.to
	}
	first := slices.Index(order, slices.Min(order))
	var b strings.Builder
	for i := range order {
		b.WriteString(c.spec.Steps[order[(first+i)%len(order)]].ID + " -> ")
	}
	return b.String() + c.spec.Steps[order[first]].ID
}

// reach reports each reference in c.uses to a step that need not have run. The referring step must depend on the step that it
// refers to, directly or not. For a reference to an output, one of the dependencies on the way must be of state succeeded.
func (c *checker) reach(index map[string]int, g *links) {
	byTarget := map[int][]use{}
	for _, u := range c.uses {
		from, okFrom := index[u.from]
		to, okTo := index[u.ref.step()]
		if !okFrom || !okTo || c.names.vague.ids[u.from] || slices.ContainsFunc(g.parents[from], func(e edge) bool { return e.to == to && e.succeeded }) {
			continue
		}
		byTarget[to] = append(byTarget[to], u)
	}
	for to, uses := range byTarget {
		after, succeeded := g.below(to)
		for _, u := range uses {
			from := index[u.from]
			switch {
			case !after[from]:
				c.problem(u.in, problem{
					u.ref.part, fmt.Sprintf("step %q does not depend on %q", u.from, u.ref.step()),
					"add depends: [" + u.ref.step() + "] to " + u.from,
				})
			case u.ref.isOutput() && !succeeded[from]:
				c.problem(u.in, problem{
					u.ref.part, fmt.Sprintf("step %q may run before %q has succeeded and has outputs", u.from, u.ref.step()),
					"depend on it in state succeeded",
				})
			}
		}
	}
}

// below returns two sets of steps, by index: all that depend on the step top, directly or not, and those of them that do so over at
// least one dependency of state succeeded.
func (g *links) below(top int) (after, succeeded []bool) {
	after, succeeded = make([]bool, len(g.parents)), make([]bool, len(g.parents))
	type visit struct {
		step int
		good bool
	}
	todo := []visit{{top, false}}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, e := range g.children[at.step] {
			good := at.good || e.succeeded
			if after[e.to] && (succeeded[e.to] || !good) {
				continue
			}
			after[e.to] = true
			succeeded[e.to] = succeeded[e.to] || good
			todo = append(todo, visit{e.to, good})
		}
	}
	return after, succeeded
}

// use is a reference from one step to another.
type use struct {
	from string // id of the step that refers
	ref  ref
	in   *node
}

// text reports mistakes in the references and computed values of a text, and notes which secrets and which other steps it refers to.
// A nil node, or a node that is no text, has no mistakes.
func (c *checker) text(n *node, known *names) { c.textOf(n, known, wantValue) }

// textOf does the work of text. If the text is a computed value and nothing else, that must be able to have the type want.
func (c *checker) textOf(n *node, known *names, want wanted) {
	if n == nil || n.kind != kindString {
		return
	}
	t, problems := parseTemplate(n.text())
	for _, p := range problems {
		c.problem(n, p)
	}
	for _, s := range t {
		if s.source != "" {
			c.computed(n, known, s.source, want)
		}
		if s.ref == nil {
			continue
		}
		_, p := known.check(*s.ref)
		if p == nil && s.ref.root() == "secrets" {
			c.asked[s.ref.path[1]] = true
			if s.orElse != nil {
				p = s.ref.wrong("remove the default: a task fails without the secret", "a secret has no default")
			}
		}
		if p != nil {
			c.problem(n, *p)
			continue
		}
		c.used(n, known, *s.ref)
	}
}

// problem reports a mistake in a part of a text, at the position of that part if it can be found in the file.
func (c *checker) problem(n *node, p problem) {
	at := n.pos()
	if !c.full() {
		at = c.locate(n, p.part)
	}
	c.add(at, p.hint, "%s", p.msg)
}

// used records a reference to another step in c.uses, which reach checks once the graph is known. It leaves out references from
// handlers, of a step to itself and to unknown steps.
func (c *checker) used(n *node, known *names, f ref) {
	id := f.step()
	if id == "" || known.self == "" || id == known.self || c.names.steps[id] == nil {
		return
	}
	c.uses = append(c.uses, use{known.self, f, n})
}

// texts checks all texts in a value, at any depth, each as text does. Keys of maps are not checked.
func (c *checker) texts(n *node, known *names) {
	c.text(n, known)
	for item := range n.list() {
		c.texts(item, known)
	}
	for _, v := range n.fields() {
		c.texts(v, known)
	}
}

// expression reports mistakes in an expression that must return want, and notes which other steps it refers to. A nil node has no
// mistakes.
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

// ours matches references, and computed values that name something.
var ours = regexp.MustCompile(`\$\{(?:=[^}]*?\b|\s*)(?:params|steps|env|run|secrets)\.[^}]*\}?`)

// oursOrComputed matches what ours does, and each other computed value up to its first brace.
var oursOrComputed = regexp.MustCompile(ours.String() + `|\$\{=[^}]*\}?`)

// noReferences reports each reference of ours, such as ${params.x}, and each computed value in a field where none is filled in.
// Other uses of ${ are allowed there.
func (c *checker) noReferences(n *node) {
	if n == nil {
		return
	}
	for _, part := range oursOrComputed.FindAllString(n.text(), -1) {
		hint := "references and computed values work in env, with, args, stdin, foreach.items, labels and name"
		if isSecret(part) {
			hint = secretPlaces
		}
		c.problem(n, problem{part, part + " is not replaced by a value here", hint})
	}
}

// script reports each reference of ours in the text of a script, because the value would be executed as code. key is the field with
// the script, run or sql.
func (c *checker) script(n *node, key string, known *names) {
	if n == nil {
		return
	}
	pattern := ours // the shell may have other uses of ${=
	if key == "sql" {
		pattern = oursOrComputed
	}
	found := pattern.FindAllString(n.text(), -1)
	for _, item := range known.itemNames() {
		own := regexp.MustCompile(`\$\{` + item + `(?:\.[^}]*)?\}`)
		found = append(found, own.FindAllString(n.text(), -1)...)
	}
	for _, part := range found {
		c.problem(n, problem{part, fmt.Sprintf("%s is not replaced by a value inside %s, because the value would become code", part, key), scriptHint(part, key)})
	}
}

func isSecret(part string) bool { return strings.HasPrefix(strings.TrimLeft(part, "${ "), "secrets.") }

// scriptHint returns how a script gets at the value of a reference: by a variable, or by params of SQL. part is the reference as it
// is written, and key the field with the script.
func scriptHint(part, key string) string {
	if key == "sql" && isSecret(part) {
		return "SQL takes no secret; put the password of a database into the worker's connections"
	}
	if key == "sql" {
		return "write $1, and add the value to params:"
	}
	if strings.HasPrefix(part, opening) {
		return "write the computed value into env: {VALUE: '${= …}'}, and use \"$VALUE\" in the script"
	}
	name := strings.Trim(part, "${} ")
	if field, ok := strings.CutPrefix(name, "env."); ok {
		return fmt.Sprintf("write \"$%s\"", field)
	}
	variable := strings.ToUpper(name[strings.LastIndexByte(name, '.')+1:])
	variable = strings.NewReplacer("-", "_").Replace(variable)
	if strings.HasPrefix(name, "params.") {
		return fmt.Sprintf("the script has the param as \"$PARAM_%s\"", variable)
	}
	return fmt.Sprintf("write env: {%s: \"${%s}\"}, and use \"$%s\" in the script", variable, name, variable)
}
