package dagspec

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// decoder fills Go types from a tree that the schema has checked. It skips nodes that the schema refused.
type decoder struct{ *report }

// own is implemented by types with more than one form in a file.
type own interface{ fromNode(d *decoder, n *node) }

// preset is implemented by types with defaults other than zero values.
type preset interface{ preset() }

// decode stores the value of n in v, after the defaults of v's type. v must be addressable. It reports a duration that cannot be
// read, and trusts the schema in everything else.
func (d *decoder) decode(n *node, v reflect.Value) {
	if p, ok := reflect.TypeAssert[preset](v.Addr()); ok {
		p.preset()
	}
	switch target := v.Addr().Interface().(type) {
	case own:
		target.fromNode(d, n)
		return
	case *Duration:
		parsed, err := ParseDuration(n.text())
		if err != nil {
			d.add(n.pos(), "", "%v", err)
		}
		*target = parsed
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(n, v.Elem())
	case reflect.Struct:
		d.fields(n, v)
	case reflect.Slice:
		d.slice(n, v)
	case reflect.Map:
		v.Set(reflect.MakeMapWithSize(v.Type(), len(n.items)))
		for key, item := range n.fields() {
			elem := reflect.New(v.Type().Elem()).Elem()
			d.decode(item, elem)
			v.SetMapIndex(reflect.ValueOf(key.text()), elem)
		}
	case reflect.Interface:
		if plain := n.plain(); plain != nil {
			v.Set(reflect.ValueOf(plain))
		}
	default:
		scalar(n, v)
	}
}

func (d *decoder) fields(n *node, v reflect.Value) {
	names := fieldNames(v.Type())
	for key, value := range n.fields() {
		if i, ok := names[key.text()]; ok {
			d.decode(value, v.Field(i))
		}
	}
}

// slice decodes a list into a slice. A node that is no list becomes a slice of one element, where the schema accepts that.
func (d *decoder) slice(n *node, v reflect.Value) {
	if n.kind != kindList {
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		d.decode(n, v.Index(0))
		return
	}
	list := reflect.MakeSlice(v.Type(), 0, len(n.items))
	for item := range n.list() {
		list = reflect.Append(list, reflect.Zero(v.Type().Elem()))
		d.decode(item, list.Index(list.Len()-1))
	}
	v.Set(list)
}

// scalar stores a value in a field of the same kind, and an integer also in a field for fractions. In a text field it stores an
// integer or boolean as text. It ignores a value of any other kind.
func scalar(n *node, v reflect.Value) {
	switch value := n.value.(type) {
	case string:
		if v.Kind() == reflect.String {
			v.SetString(value)
		}
	case bool:
		if v.Kind() == reflect.Bool {
			v.SetBool(value)
		} else if v.Kind() == reflect.String {
			v.SetString(fmt.Sprint(value))
		}
	case int64:
		switch v.Kind() {
		case reflect.Int:
			v.SetInt(value)
		case reflect.Float64:
			v.SetFloat(float64(value))
		case reflect.String:
			v.SetString(fmt.Sprint(value))
		}
	case float64:
		if v.Kind() == reflect.Float64 {
			v.SetFloat(value)
		}
	}
}

var fieldCache sync.Map

// fieldNames returns the index of each field of a struct by its JSON name. Results are cached for each type, and must not be
// changed.
func fieldNames(t reflect.Type) map[string]int {
	if cached, ok := fieldCache.Load(t); ok {
		if names, ok := cached.(map[string]int); ok {
			return names
		}
	}
	names := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" {
			names[name] = i
		}
	}
	fieldCache.Store(t, names)
	return names
}

// mergeDefaults copies the values of `defaults:` into every step and handler that does not set them itself, and marks `defaults:`
// as bad, so that later code skips it. Some maps are merged key by key, see mergedKeys.
func mergeDefaults(root *node) {
	defaults := root.get("defaults")
	for step := range root.get("steps").list() {
		mergeInto(step, defaults)
	}
	for _, handler := range root.get("handler_on").fields() {
		mergeInto(handler, defaults)
	}
	for i, k := range root.keys {
		if k.value == "defaults" {
			k.bad, root.items[i].bad = true, true
		}
	}
}

// mergedKeys are the keys of `defaults:` with maps that complete the map of a step. Any other value of a step replaces the default.
var mergedKeys = []string{"env", "kill", "retry_policy"}

func mergeInto(step, defaults *node) {
	for k, v := range defaults.fields() {
		_, own := step.find(k.text())
		switch {
		case own == nil && step.kind == kindMap:
			step.keys, step.items = append(step.keys, k), append(step.items, v)
		case own != nil && !own.bad && own.kind == kindMap && v.kind == kindMap && slices.Contains(mergedKeys, k.text()):
			step.replace(k.text(), overlay(own, v))
		}
	}
}

// overlay returns a new map with all entries of own, and the good entries of base for which own has no key. It changes neither map,
// because aliases may share them.
func overlay(own, base *node) *node {
	merged := &node{kind: kindMap, at: own.at, size: own.size}
	merged.keys = append(merged.keys, own.keys...)
	merged.items = append(merged.items, own.items...)
	for k, v := range base.fields() {
		if !own.has(k.text()) {
			merged.keys, merged.items = append(merged.keys, k), append(merged.items, v)
		}
	}
	return merged
}

func (n *node) replace(key string, value *node) {
	for i, k := range n.keys {
		if k.value == key {
			n.items[i] = value
		}
	}
}

// Types with more than one form in a file, and defaults that are not zero values.

func (s *Spec) preset() {
	s.Queue, s.OnLost, s.MaxDrives = "default", "retry", 5
	s.Retention.preset()
}

func (r *Retention) preset() { *r = Retention{Days: 30, LogsDays: 14} }

func (p *Param) preset() { p.Type = "string" }

func (k *Kill) preset() { *k = standardKill }

var standardKill = Kill{Signal: "SIGTERM", Grace: 10 * second}

func (p *RetryPolicy) preset() {
	*p = RetryPolicy{Interval: Span{Value: 5 * second}, Backoff: 2, MaxInterval: Span{Value: 5 * minute}, Jitter: 0.2}
}

func (c *Cache) preset() { c.Scope = "submitter" }

func (f *Foreach) preset() {
	f.As, f.Batch, f.MaxConcurrent.Value, f.MaxItems = "item", 1, 10, 1000
}

func (e *Depend) fromNode(d *decoder, n *node) {
	if e.State = "succeeded"; n.kind == kindString {
		e.Step = n.text()
		return
	}
	d.fields(n, reflect.ValueOf(e).Elem())
}

// MarshalJSON writes the id of the step alone if the state is succeeded, which is the default, and else a map.
func (e Depend) MarshalJSON() ([]byte, error) {
	type long Depend
	if e.State == "succeeded" {
		return json.Marshal(e.Step)
	}
	return json.Marshal(long(e))
}

func (o *Output) fromNode(d *decoder, n *node) {
	if o.Type = "string"; n.kind == kindString {
		o.Name = n.text()
		return
	}
	d.fields(n, reflect.ValueOf(o).Elem())
}

// MarshalJSON writes the name alone if the other fields have their defaults, and else a map.
func (o Output) MarshalJSON() ([]byte, error) {
	type long Output
	if o.Type == "string" && o.From == "" && !o.Optional {
		return json.Marshal(o.Name)
	}
	return json.Marshal(long(o))
}

func (a *Args) fromNode(d *decoder, n *node) {
	a.Append = n.kind == kindMap
	if a.Append {
		n = n.get("append")
	}
	if n != nil {
		d.slice(n, reflect.ValueOf(&a.List).Elem())
	}
}

// MarshalJSON writes the list, or a map for arguments that are added.
func (a Args) MarshalJSON() ([]byte, error) {
	if a.Append {
		return json.Marshal(map[string][]string{"append": a.List})
	}
	return json.Marshal(a.List)
}

func (s *Stdin) fromNode(d *decoder, n *node) {
	if n.kind == kindString {
		s.Text = n.text()
		return
	}
	d.fields(n, reflect.ValueOf(s).Elem())
}

// MarshalJSON writes the text alone, or a map for an output or a file.
func (s Stdin) MarshalJSON() ([]byte, error) {
	type long Stdin
	if s.Output == "" && s.File == "" {
		return json.Marshal(s.Text)
	}
	return json.Marshal(long(s))
}

func (s *Secret) fromNode(d *decoder, n *node) {
	if n.kind == kindString {
		s.Name = n.text()
		return
	}
	d.fields(n, reflect.ValueOf(s).Elem())
}

// MarshalJSON writes the name alone if From is empty, because the DAG declares the secret, and else a map.
func (s Secret) MarshalJSON() ([]byte, error) {
	type long Secret
	if s.From == "" {
		return json.Marshal(s.Name)
	}
	return json.Marshal(long(s))
}

func (s *StepSecrets) fromNode(d *decoder, n *node) {
	if n.kind == kindString {
		s.All = n.text() == allSecrets
		return
	}
	s.List = []Secret{}
	for item := range n.list() {
		var secret Secret
		secret.fromNode(d, item)
		s.List = append(s.List, secret)
	}
}

// MarshalJSON writes the word "all" if All is set, and else the list.
func (s StepSecrets) MarshalJSON() ([]byte, error) {
	if s.All {
		return json.Marshal(allSecrets)
	}
	return json.Marshal(s.List)
}

func (c *ContinueOn) fromNode(d *decoder, n *node) {
	switch n.text() {
	case "failed":
		c.Failure = true
	case "skipped":
		c.Skipped = true
	default:
		d.fields(n, reflect.ValueOf(c).Elem())
	}
}

// IsZero reports whether nothing is tolerated.
func (c ContinueOn) IsZero() bool {
	return !c.Failure && !c.Skipped && !c.MarkSuccess && len(c.ExitCode) == 0
}

func (p *Priority) fromNode(_ *decoder, n *node) {
	if i, ok := n.value.(int64); ok {
		p.Value = int(i)
		return
	}
	p.Expr = n.text()
}

// MarshalJSON writes the expression if there is one, and else the number.
func (p Priority) MarshalJSON() ([]byte, error) {
	if p.Expr != "" {
		return json.Marshal(p.Expr)
	}
	return json.Marshal(p.Value)
}

func (i *Items) fromNode(_ *decoder, n *node) {
	if n.kind == kindString {
		i.Ref = strings.TrimSpace(n.text()) // a text over several lines ends with a line break
		return
	}
	i.List, _ = n.plain().([]any)
}

// MarshalJSON writes the reference if there is one, and else the list.
func (i Items) MarshalJSON() ([]byte, error) {
	if i.Ref != "" {
		return json.Marshal(i.Ref)
	}
	return json.Marshal(i.List)
}
