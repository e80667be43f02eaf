package dagrun

import (
	"fmt"
	"strconv"
	"strings"
)

// TaskName formats a task for people: step, step/item, step~1, step/item~2. ParseTask reads it back.
func (g *Graph) TaskName(id TaskID) string {
	if id.Step < 0 || id.Step >= g.Len() {
		return fmt.Sprintf("unknown(%d)", id.Step)
	}
	name := g.StepName(id.Step)
	if id.Item != "" {
		name += "/" + id.Item
	}
	if id.Alt != 0 || endsLikeAlt(id.Item) {
		name += "~" + strconv.Itoa(id.Alt)
	}
	return name
}

// ParseTask reads what TaskName prints. It checks that the graph has the step, not that a run has the item or replacement.
func (g *Graph) ParseTask(name string) (TaskID, error) {
	rest, alt := cutAlt(name)
	step, item, hasItem := strings.Cut(rest, "/")
	i, ok := g.index[step]
	if !ok {
		return TaskID{}, fmt.Errorf("task %q: no step is named %q", name, step)
	}
	if hasItem && item == "" {
		return TaskID{}, fmt.Errorf("task %q: the item after the slash is empty", name)
	}
	return TaskID{Step: i, Item: item, Alt: alt}, nil
}

// endsLikeAlt reports whether TaskName must write ~0 after an item's key. Without it, the end of the key would be read as
// the number of a replacement.
func endsLikeAlt(key string) bool {
	rest, _ := cutAlt(key)
	return rest != key
}

// cutAlt splits a trailing ~n off. It returns 0 if there is none.
func cutAlt(s string) (rest string, alt int) {
	i := strings.LastIndexByte(s, '~')
	if i < 0 {
		return s, 0
	}
	n, err := strconv.ParseUint(s[i+1:], 10, 31)
	if err != nil {
		return s, 0
	}
	return s[:i], int(n)
}
