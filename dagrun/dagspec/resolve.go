package dagspec

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Resolved holds a step's texts for one task, with all references filled in.
type Resolved struct {
	Name   string
	Labels map[string]string
	Env    map[string]string // of the DAG and the step; the step's own variables win
	Args   []string
	Stdin  *string // nil: none, or StdinFile
	With   map[string]any

	StdinFile string

	ShownURL  string            // With.url if it holds secrets, with the references in place of the secrets' values; set by Reveal
	Secrets   []Secret          // secrets that must be read before Reveal, by name
	Declared  []Secret          // of the whole DAG
	sealed    map[string]sealed // variables with texts that hold secrets
	variables []string          // secrets that are variables under their own names
}

// Resolve fills in the references of a step that came out of a Graph, for the task of the scope. Secrets stay sealed until Reveal.
// All computed values together may cost as much as one evaluation; Resolve adds the cost to a scope that counts costs.
// An error means that a reference has no value or must not stand in its place: the caller then ends the task as `failed: config`.
func (s *Step) Resolve(scope dagrun.Scope) (*Resolved, error) {
	v, err := newView(scope, s.names)
	if err != nil {
		return nil, err
	}
	defer func() { spent(scope, v.budget) }()
	return v.resolve(s)
}

// ResolvePublish fills in the references of the step's publish as Resolve does. They may also refer to the outputs of the body that
// has just succeeded, which the scope does not show yet. The step must have a publish.
func (s *Step) ResolvePublish(scope dagrun.Scope, outputs dagrun.JSON) (*Resolved, error) {
	return s.Publish.Resolve(ownOutputs{Scope: scope, id: s.names.self, outputs: outputs})
}

// ownOutputs is a Scope that shows a step its own outputs before other steps can see them.
type ownOutputs struct {
	dagrun.Scope
	id      string
	outputs dagrun.JSON
}

// Step implements dagrun.Scope. For the step itself the view has the outputs of its body.
func (o ownOutputs) Step(id string) (dagrun.StepView, bool) {
	s, ok := o.Scope.Step(id)
	if id == o.id {
		s.Outputs = o.outputs
	}
	return s, ok
}

// Spend implements dagrun.Spender, if the scope behind it does.
func (o ownOutputs) Spend(units int) {
	if s, ok := o.Scope.(dagrun.Spender); ok {
		s.Spend(units)
	}
}

func (v *view) resolve(s *Step) (*Resolved, error) {
	var err error
	out := &Resolved{}
	if err = v.environment(s, out); err != nil {
		return nil, err
	}
	if out.Name, err = v.text("name", s.Name); err != nil {
		return nil, err
	}
	if out.Labels, err = v.texts("labels", s.Labels); err != nil {
		return nil, err
	}
	for _, arg := range s.Args.List {
		text, err := v.text("args", arg)
		if err != nil {
			return nil, err
		}
		out.Args = append(out.Args, text)
	}
	if out.With, err = v.with(s); err != nil {
		return nil, err
	}
	if err = out.want(s); err != nil {
		return nil, err
	}
	return out, v.stdin(s.Stdin, out)
}

func (v *view) with(s *Step) (map[string]any, error) {
	if s.With == nil {
		return nil, nil
	}
	with := make(map[string]any, len(s.With))
	for _, key := range sortedKeys(s.With) {
		sees := *v
		sees.open = s.takesSecrets(key)
		var err error
		if with[key], err = sees.fill("with."+key, s.With[key]); err != nil {
			return nil, err
		}
	}
	return with, nil
}

// stdin fills in the text, output or file that the body reads as its input, into out. in may be nil.
func (v *view) stdin(in *Stdin, out *Resolved) error {
	if in == nil {
		return nil
	}
	text, err := v.text("stdin", in.Text)
	if err != nil {
		return err
	}
	switch {
	case in.File != "":
		out.StdinFile = in.File
		return nil
	case in.Output != "":
		if text, err = v.text("stdin", "${"+in.Output+"}"); err != nil {
			return err
		}
	}
	out.Stdin = &text
	return nil
}

// texts fills in the references of all values of a map, and returns a new map. The values must not hold secrets.
func (v *view) texts(field string, m map[string]string) (map[string]string, error) {
	if m == nil {
		return nil, nil
	}
	filled := make(map[string]string, len(m))
	for _, k := range sortedKeys(m) {
		text, err := v.text(field+"."+k, m[k])
		if err != nil {
			return nil, err
		}
		filled[k] = text
	}
	return filled, nil
}

// text fills in the references of a text. It returns an error if one has no value, or if the text refers to a secret.
func (v *view) text(field, text string) (string, error) {
	pieces, err := v.pieces(field, text)
	if err != nil {
		return "", err
	}
	plain, ok := pieces.plain()
	if !ok {
		return "", fmt.Errorf("%s: a secret must not be here", field)
	}
	return plain, nil
}

// filled returns a text with its references filled in: a string, or a sealed if the text refers to secrets.
func (v *view) filled(field, text string) (any, error) {
	pieces, err := v.pieces(field, text)
	if err != nil {
		return nil, err
	}
	if plain, ok := pieces.plain(); ok {
		return plain, nil
	}
	return pieces, nil
}

// pieces fills in all references of a text except references to secrets, which become pieces of their own. field names the text in
// errors.
func (v *view) pieces(field, text string) (sealed, error) {
	t, problems := parseTemplate(text)
	if len(problems) > 0 {
		return nil, fmt.Errorf("%s: %s", field, problems[0].msg)
	}
	var out sealed
	for _, s := range t {
		if s.isLiteral() {
			out = append(out, piece{text: s.literal})
			continue
		}
		value, err := v.span(field, s)
		if err != nil {
			return nil, err
		}
		if inner, ok := value.(sealed); ok {
			out = append(out, inner...)
			continue
		}
		filled, err := asText(value)
		if err != nil {
			return nil, err
		}
		out = append(out, piece{text: filled})
	}
	return out, nil
}

// span returns the value of one reference, or its default if it has no value. Without either it returns an error. For a computed
// value it returns that.
func (v *view) span(field string, s span) (any, error) {
	if s.source != "" {
		return v.computed(field, s.source)
	}
	value, err := v.value(*s.ref)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %s: %w", field, s.ref, err)
	case value == nil && s.orElse != nil:
		return *s.orElse, nil
	case value == nil:
		return nil, fmt.Errorf("%s: %s has no value: write ${%s | default(…)} to give a default", field, s.ref, s.ref)
	}
	return value, nil
}

// fill returns a value with all references in its texts filled in, at any depth. A text that is one reference or computed value and
// nothing else becomes that value, with its type; a text with secrets becomes a sealed. value itself is not changed.
func (v *view) fill(field string, value any) (any, error) {
	switch x := value.(type) {
	case string:
		t, _ := parseTemplate(x)
		if s := t.single(); s != nil {
			value, err := v.span(field, *s)
			return plainTime(value), err
		}
		return v.filled(field, x)
	case []any:
		list := make([]any, len(x))
		for i := range x {
			item, err := v.fill(field, x[i])
			if err != nil {
				return nil, err
			}
			list[i] = item
		}
		return list, nil
	case map[string]any:
		m := make(map[string]any, len(x))
		for _, k := range sortedKeys(x) {
			item, err := v.fill(field+"."+k, x[k])
			if err != nil {
				return nil, err
			}
			m[k] = item
		}
		return m, nil
	}
	return value, nil
}

// plainTime returns a time as an RFC 3339 text and a duration as a text such as 1m30s, because JSON has neither. It returns any other
// value unchanged.
func plainTime(v any) any {
	switch x := v.(type) {
	case time.Time:
		return x.Format(time.RFC3339Nano)
	case time.Duration:
		return x.String()
	}
	return v
}

// expander makes the items of a foreach step.
type expander struct {
	foreach *Foreach
	names   *names
	outside *names      // for the items, which do not see the item
	key     *expression // nil: no key is given
}

// Expand implements dagrun.Expander. It returns one item per element of the list, or one per batch of elements. The key is
// foreach.key of the element, or of the first element of a batch. Without foreach.key it is the element itself if all are distinct,
// and short texts or whole numbers, and else the element's index. The core refuses equal keys.
func (x *expander) Expand(scope dagrun.Scope) ([]dagrun.Item, error) {
	list, err := x.list(scope)
	if err != nil {
		return nil, err
	}
	if x.foreach.MaxItems > 0 && len(list) > x.foreach.MaxItems {
		return nil, fmt.Errorf("%d items are more than max_items, %d", len(list), x.foreach.MaxItems)
	}
	batch := max(1, x.foreach.Batch)
	items := make([]dagrun.Item, 0, (len(list)+batch-1)/batch)
	key, err := x.keys(scope, len(list))
	if err != nil {
		return nil, err
	}
	defer key.done()
	for i := 0; i < len(list); i += batch {
		item := dagrun.Item{Key: strconv.Itoa(i)}
		value := list[i]
		if batch > 1 {
			value = list[i:min(i+batch, len(list))]
		}
		if item.Value, err = compactJSON(value); err != nil {
			return nil, err
		}
		if x.key != nil {
			if item.Key, err = key.of(list[i]); err != nil {
				return nil, fmt.Errorf("foreach.key of item %d: %w", i, err)
			}
		}
		items = append(items, item)
	}
	if x.key == nil && batch == 1 && tellApart(list) {
		for i := range items {
			items[i].Key, _ = nameOf(list[i])
		}
	}
	return items, nil
}

// itemName matches a text that may serve as a key in a tree, a log and a command line.
var itemName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$`)

// nameOf returns the key that an element can be by itself: a short text without special characters, or a whole number from 0 on. It
// returns false for any other element.
func nameOf(value any) (string, bool) {
	text, ok := value.(string)
	switch x := value.(type) {
	case int64:
		text, ok = strconv.FormatInt(x, 10), true
	case int:
		text, ok = strconv.Itoa(x), true
	}
	return text, ok && itemName.MatchString(text)
}

// tellApart reports whether each element can be its own key, and no two are the same.
func tellApart(list []any) bool {
	seen := make(map[string]bool, len(list))
	for _, value := range list {
		text, ok := nameOf(value)
		if !ok || seen[text] {
			return false
		}
		seen[text] = true
	}
	return true
}

// list returns the elements of the foreach, with references filled in. It returns an error if the reference for the whole is no
// list.
func (x *expander) list(scope dagrun.Scope) ([]any, error) {
	v, err := newView(scope, x.outside)
	if err != nil {
		return nil, err
	}
	defer func() { spent(scope, v.budget) }()
	var value any = x.foreach.Items.List
	if x.foreach.Items.Ref != "" {
		value = x.foreach.Items.Ref
	}
	filled, err := v.fill("foreach.items", value)
	if err != nil {
		return nil, err
	}
	list, ok := filled.([]any)
	if !ok {
		return nil, fmt.Errorf("foreach.items: %s is not a list", shownSource(x.foreach.Items.Ref))
	}
	return list, nil
}

// keys evaluates foreach.key for one element after the other. All evaluations together may cost as much as one evaluation,
// plus a little for each element.
type keys struct {
	*expression

	scope dagrun.Scope
	meter *meter
	env   map[string]any
}

const unitsOfKey = 2 * evalUnits

// keys prepares the evaluation of foreach.key for n elements. The caller must call done after the last element, so that the cost is
// counted.
func (x *expander) keys(scope dagrun.Scope, n int) (*keys, error) {
	k := &keys{expression: x.key, scope: scope, meter: newMeter(exprUnits + n*unitsOfKey)}
	if x.key == nil {
		return k, nil
	}
	v, err := newView(scope, x.names)
	if err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(slices.Clone(x.key.refs), func(f ref) bool { return f.root() == x.names.item })
	if k.env, err = v.exprEnv(others, k.meter); err != nil {
		k.done()
		return nil, fmt.Errorf("foreach.key: %s: %w", x.key.text, err)
	}
	return k, nil
}

// of returns the key of one element, by foreach.key.
func (k *keys) of(element any) (string, error) {
	if err := k.meter.see(element, costOfValue); err != nil {
		return "", fmt.Errorf("%s: %w", k.text, err)
	}
	text, err := compactJSON(element)
	if err != nil {
		return "", err
	}
	value, err := decodeJSON(text) // the value as expressions of the item's task will see it
	if err != nil {
		return "", err
	}
	k.env[k.names.item] = exprValue(value)
	return k.asKey(k.run(k.env, k.meter))
}

// done adds the cost of all evaluations to the scope.
func (k *keys) done() { spent(k.scope, k.meter) }
