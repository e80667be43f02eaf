package dagspec

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// expander makes the items of a foreach step.
type expander struct {
	foreach *Foreach
	names   *names
	key     *expression // nil: no key is given
}

// Expand returns one item per element, or one per batch of elements. The key of a batch is the key of its first element.
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
			items[i].Key, _ = list[i].(string)
		}
	}
	return items, nil
}

// itemName matches a text that may serve as a key in a tree, a log and a command line.
var itemName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$`)

// tellApart reports whether the items are short, distinct texts. Then each item is its own key.
func tellApart(list []any) bool {
	seen := make(map[string]bool, len(list))
	for _, value := range list {
		text, ok := value.(string)
		if !ok || seen[text] || !itemName.MatchString(text) {
			return false
		}
		seen[text] = true
	}
	return true
}

func (x *expander) list(scope dagrun.Scope) ([]any, error) {
	v, err := newView(scope, x.names)
	if err != nil {
		return nil, err
	}
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
		return nil, fmt.Errorf("foreach.items: %s is not a list", x.foreach.Items.Ref)
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

// of returns the key of one element.
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

func (k *keys) done() { spent(k.scope, k.meter) }
