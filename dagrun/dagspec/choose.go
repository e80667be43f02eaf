package dagspec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// A rule of on_error may replace a failed task by data: a replacement with foreach stands for one task for each item, and with
// do: ask a program chooses among the replacements of the rule, and gives each its item.

// chosenItem is the name of the item that a program of do: ask gives.
const chosenItem = "item"

// choicesOutput is the output with what a program of do: ask prints.
const choicesOutput = "choices"

// maxChoicesBytes limits what a program of do: ask may print.
const maxChoicesBytes = 64 << 10

// bodies returns the bodies of a rule: its replacements, and the body that it asks.
func (rule *ErrorRule) bodies() []*Step {
	list := make([]*Step, 0, len(rule.With)+1)
	for i := range rule.With {
		list = append(list, &rule.With[i])
	}
	if rule.Ask != nil {
		list = append(list, rule.Ask)
	}
	return list
}

// choosing returns the names for the texts of a replacement by data, which see its item. Items of replacements that it replaces
// keep their names, unless as is the same.
func (n *names) choosing(as string) *names {
	own := *n
	own.chosen = append(slices.Clone(n.chosen), as)
	return &own
}

// ofReplacement returns the names for the texts of a replacement, from the names for on_error of the step.
func (n *names) ofReplacement(rule *ErrorRule, with *Step) *names {
	switch {
	case rule.Do == dagrun.DoAsk.String():
		return n.choosing(chosenItem)
	case with.Foreach != nil:
		return n.choosing(with.Foreach.As)
	}
	own := *n
	return &own
}

// itemNames returns the names of all items that a text may use: of the foreach step first, and then of replacements by data.
func (n *names) itemNames() []string {
	if n.item == "" {
		return n.chosen
	}
	return append([]string{n.item}, n.chosen...)
}

// isItem reports whether an item has the name.
func (n *names) isItem(name string) bool {
	return n.item != "" && name == n.item || slices.Contains(n.chosen, name)
}

// chosen returns the item that has the given name. If several replacements by data have such an item, the last one
// counts. It returns false if no item has it.
func (v *view) chosen(name string) (dagrun.JSON, bool) {
	failure, _ := v.Failure()
	for i := min(len(v.names.chosen), len(failure.Chosen)) - 1; i >= 0; i-- {
		if v.names.chosen[i] == name {
			return failure.Chosen[i], true
		}
	}
	return "", false
}

// replacements checks the bodies of a rule that replaces a failed body of the given kind. r is the rule.
func (c *checker) replacements(rule *ErrorRule, r *node, kind string, known *names) {
	nodes := slices.Collect(r.get("with").list())
	if with := r.get("with"); with != nil && with.kind == kindMap {
		nodes = []*node{with}
	}
	asks := rule.Do == dagrun.DoAsk.String()
	seen := map[string]pos{}
	for i := range rule.With {
		with, n, own := &rule.With[i], nodes[i], known.withFailure(kind)
		id, _ := n.find("id")
		switch {
		case id != nil && !asks:
			c.add(id.pos(), "only steps, and replacements under do: ask, have id", "id does nothing for do: %s", rule.Do)
		case id == nil && asks && !n.unreadable():
			c.add(n.pos(), "add id:, by which the program of ask chooses it", "the replacement has no id")
		case asks:
			c.twice(seen, with.ID, n.get("id"), "replacement")
		}
		if f := n.get("foreach"); f != nil && with.Foreach != nil {
			c.spread(with, n, f, own, asks)
		}
		c.body(with, n, kind, own.ofReplacement(rule, with))
	}
	if ask := r.get("ask"); ask != nil && rule.Ask != nil {
		c.body(rule.Ask, ask, "", known.withFailure(kind))
	}
}

// spread checks the foreach of a replacement, with known for the texts of its items.
func (c *checker) spread(with *Step, n, f *node, known *names, asks bool) {
	if asks {
		key, _ := n.find("foreach")
		c.add(key.pos(), "remove it: the program of ask gives each replacement its item", "foreach does nothing for do: ask")
		return
	}
	var standard Foreach
	standard.preset()
	for key, differs := range map[string]bool{
		"key": with.Foreach.Key != "", "max_concurrent": with.Foreach.MaxConcurrent != standard.MaxConcurrent, "fail_fast": with.Foreach.FailFast,
	} {
		if at, _ := f.find(key); at != nil && differs {
			c.add(at.pos(), "remove it: a replacement has items, as, batch and max_items", "%s does nothing for the foreach of a replacement", key)
		}
	}
	if with.Result != nil {
		c.add(n.get("result").pos(), "remove one of the two", "foreach and result exclude each other")
	}
	c.items(with.Foreach, f, known)
}

// asking returns the body that a rule asks, with the fields that it takes from the failed step: the variables, the secrets, the
// shell and the working directory. The text that it prints becomes its only output.
func (s Step) asking(failed *Step) Step {
	s.ID = failed.ID
	s.Env, s.Secrets = merged(failed.Env, s.Env), or(s.Secrets, failed.Secrets)
	if s.Shell == nil {
		s.Shell = failed.Shell
	}
	if s.WorkingDir == "" {
		s.WorkingDir = failed.WorkingDir
	}
	s.Outputs = []Output{{Name: choicesOutput, Type: "json", From: "stdout"}}
	return s
}

// errorRule compiles a rule of on_error of the step s, with the names n. out is the compiled step.
func (c *compiler) errorRule(rule *ErrorRule, i int, s *Step, n *names, out *dagrun.Step) (compiled dagrun.ErrorRule) {
	var err error
	if compiled.Do, err = dagrun.ParseDo(rule.Do); err != nil {
		c.errs = append(c.errs, err)
	}
	failing := n.withFailure(s.kind())
	if e := c.expression(failing, fmt.Sprintf("on_error[%d].when", i), rule.When, wantBool); e != nil {
		compiled.When = e
	}
	var ids []string
	for k := range rule.With {
		alt := rule.With[k].replacing(s)
		with := c.step(out.Name, &alt, failing.ofReplacement(rule, &alt))
		if each := alt.Foreach; each != nil {
			with.Foreach = &dagrun.Foreach{Items: &expander{foreach: each, outside: c.itemsNames(each.Items, failing)}, MaxItems: each.MaxItems}
		}
		compiled.With, ids = append(compiled.With, with), append(ids, rule.With[k].ID)
	}
	if rule.Ask != nil {
		body := rule.Ask.asking(s)
		asked := c.step(out.Name, &body, n.withFailure(s.kind()))
		compiled.Ask, compiled.Chooser = &asked, chooser(ids)
	}
	return compiled
}

// chooser reads what a program of do: ask printed. It holds the ids of the replacements, in their order.
type chooser []string

// Choose implements dagrun.Chooser. The outputs have a list such as [{"use": "small", "item": 7}] as their only value.
func (c chooser) Choose(outputs dagrun.JSON) ([]dagrun.Choice, error) {
	all, err := output(dagrun.StepView{Outputs: outputs}, choicesOutput)
	if err != nil {
		return nil, err
	}
	list, ok := all.([]any)
	switch {
	case !ok:
		return nil, fmt.Errorf(`the program printed no list: print one such as [{"use": %q, "item": 7}]`, c[0])
	case len(outputs) > maxChoicesBytes:
		return nil, fmt.Errorf("the program printed %d bytes, at most %d: give each item as a reference to its data", len(outputs), maxChoicesBytes)
	}
	choices := make([]dagrun.Choice, len(list))
	for i := range list {
		if choices[i], err = c.choice(list[i]); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
	}
	return choices, nil
}

// choice reads one entry of the list. An entry without an item has null as its item.
func (c chooser) choice(entry any) (choice dagrun.Choice, err error) {
	m, ok := entry.(map[string]any)
	if !ok {
		return choice, fmt.Errorf(`it is no map such as {"use": %q}`, c[0])
	}
	for _, key := range sortedKeys(m) {
		if key != "use" && key != "item" {
			return choice, fmt.Errorf("%q is unknown: an entry has use and item", shortened(key, sourceRunesMax))
		}
	}
	use, ok := m["use"].(string)
	if !ok {
		return choice, fmt.Errorf(`use is missing: write {"use": %q}`, c[0])
	}
	if choice.With = slices.Index(c, use); choice.With < 0 {
		hint, near := nearest(use, c)
		if !near {
			hint = "the replacements are " + strings.Join(c, ", ")
		}
		return choice, fmt.Errorf("no replacement has the id %q: %s", shortened(use, sourceRunesMax), hint)
	}
	choice.Value, err = compactJSON(m["item"])
	return choice, err
}
