package dagspec

import (
	"fmt"
	"strconv"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// expander gives the items of a foreach.
type expander struct {
	foreach *Foreach
	names   *names
	key     *expression // nil: the index
}

// Expand makes one item per element, or per batch of them, keyed by its first.
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
			first, err := compactJSON(list[i])
			if err != nil {
				return nil, err
			}
			if item.Key, err = x.key.Text(oneItem{scope, first}); err != nil {
				return nil, fmt.Errorf("foreach.key of item %d: %w", i, err)
			}
		}
		items = append(items, item)
	}
	return items, nil
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

// oneItem shows a key expression the element it names.
type oneItem struct {
	dagrun.Scope
	value dagrun.JSON
}

// Item is the element.
func (o oneItem) Item() (dagrun.Item, bool) { return dagrun.Item{Value: o.value}, true }
