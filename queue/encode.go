package queue

import (
	"encoding/json"
	"fmt"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// What rows keep in another form than the core. "" stands for what is not there, in both directions.

// storedGrowth is tasks.grown.
type storedGrowth struct {
	Generation int          `json:"generation"`
	Items      []storedItem `json:"items,omitempty"`
	Rule       int          `json:"rule,omitempty"`
	FirstAlt   int          `json:"first_alt,omitempty"`
	Count      int          `json:"count,omitempty"`
}

// storedItem has its value as text: as JSON it would come back with other spaces and another order of keys, and what a
// later drive computes from it must be what the first one did.
type storedItem struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func encodeGrowth(g *dagrun.Growth) string {
	if g == nil {
		return ""
	}
	stored := storedGrowth{Generation: g.Generation, Rule: g.Rule, FirstAlt: g.FirstAlt, Count: g.Count}
	for _, item := range g.Items {
		stored.Items = append(stored.Items, storedItem{Key: item.Key, Value: string(item.Value)})
	}
	return encodePlain(stored)
}

func decodeGrowth(text string) (*dagrun.Growth, error) {
	if text == "" {
		return nil, nil
	}
	var stored storedGrowth
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return nil, fmt.Errorf("growth: %w", err)
	}
	g := &dagrun.Growth{Generation: stored.Generation, Rule: stored.Rule, FirstAlt: stored.FirstAlt, Count: stored.Count}
	for _, item := range stored.Items {
		g.Items = append(g.Items, dagrun.Item{Key: item.Key, Value: dagrun.JSON(item.Value)})
	}
	return g, nil
}

// Input is a value that an approval asks for, as rows and JSON have it.
type Input struct {
	Name     string `json:"name"`
	Required bool   `json:"required"`
}

// encodeInputs makes a list, also of none.
func encodeInputs(inputs []dagrun.Input) string {
	list := make([]Input, len(inputs))
	for i, in := range inputs {
		list[i] = Input(in)
	}
	return encodePlain(list)
}

func encodeNames(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return encodePlain(names)
}

// encodePlain is for texts, numbers and booleans only.
func encodePlain(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("queue: %+v: %v", v, err))
	}
	return string(text)
}

func encodeRequest(r dagrun.Request) string {
	if r == dagrun.RequestNone {
		return ""
	}
	return r.String()
}

func decodeRequest(word string) (dagrun.Request, error) {
	if word == "" {
		return dagrun.RequestNone, nil
	}
	return dagrun.ParseRequest(word)
}

// encodeMarked leaves out what no task is marked as.
func encodeMarked(s dagrun.State) string {
	if s == dagrun.TaskPending {
		return ""
	}
	return s.String()
}

func decodeMarked(word string) (dagrun.State, error) {
	if word == "" {
		return dagrun.TaskPending, nil
	}
	return dagrun.ParseState(word)
}

func encodeEnding(e dagrun.Ending) string {
	if e == dagrun.EndingNone {
		return ""
	}
	return e.String()
}

func decodeEnding(word string) (dagrun.Ending, error) {
	if word == "" {
		return dagrun.EndingNone, nil
	}
	return dagrun.ParseEnding(word)
}
