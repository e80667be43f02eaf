package coretest

import (
	"errors"
	"fmt"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Cond is a condition that a test builds by hand.
type Cond struct {
	Says  string
	Holds func(dagrun.Scope) (bool, error)
}

// Eval evaluates the condition.
func (c Cond) Eval(s dagrun.Scope) (bool, error) { return c.Holds(s) }

// String returns the text of the condition.
func (c Cond) String() string { return c.Says }

var errCondition = errors.New("no such thing")

// Conditions that ignore their scope.
var (
	True  = Cond{"true", func(dagrun.Scope) (bool, error) { return true, nil }}
	False = Cond{"false", func(dagrun.Scope) (bool, error) { return false, nil }}
	Wrong = Cond{"wrong", func(dagrun.Scope) (bool, error) { return false, errCondition }}
)

// StepIs holds when a step is in a state. It fails with an error when there is no such step.
func StepIs(step string, state dagrun.State) Cond {
	return Cond{fmt.Sprintf("%s is %s", step, state), func(s dagrun.Scope) (bool, error) {
		v, ok := s.Step(step)
		if !ok {
			return false, errCondition
		}
		return v.State == state, nil
	}}
}

// SomeItem holds when an item of a step is in a state.
func SomeItem(step string, state dagrun.State) Cond {
	return Cond{fmt.Sprintf("some of %s is %s", step, state), func(s dagrun.Scope) (bool, error) {
		for _, v := range s.Items(step) {
			if v.State == state {
				return true, nil
			}
		}
		return false, nil
	}}
}

// ItemIsNot holds for every item except the one with this key.
func ItemIsNot(key string) Cond {
	return Cond{"item is not " + key, func(s dagrun.Scope) (bool, error) {
		it, ok := s.Item()
		if !ok {
			return false, errCondition
		}
		return it.Key != key, nil
	}}
}

// Exited holds for a failure with an exit code.
func Exited(code int) Cond {
	return Cond{fmt.Sprintf("exit is %d", code), func(s dagrun.Scope) (bool, error) {
		f, ok := s.Failure()
		if !ok {
			return false, errCondition
		}
		return f.Kind == dagrun.KindExit && f.ExitCode == code, nil
	}}
}

// FailedAs holds for a failure of a kind.
func FailedAs(kind dagrun.FailureKind) Cond {
	return Cond{"kind is " + string(kind), func(s dagrun.Scope) (bool, error) {
		f, _ := s.Failure()
		return f.Kind == kind, nil
	}}
}

// RunIs holds when the verdict so far is this state. It is meant for handlers.
func RunIs(state dagrun.RunState) Cond {
	return Cond{"run is " + state.String(), func(s dagrun.Scope) (bool, error) { return s.Run().State == state, nil }}
}

// Given holds if the last replacement by data on the way to the task has this item.
func Given(item string) Cond {
	return Cond{"item of the replacement is " + item, func(s dagrun.Scope) (bool, error) {
		f, ok := s.Failure()
		if !ok {
			return false, errCondition
		}
		return len(f.Chosen) > 0 && f.Chosen[len(f.Chosen)-1] == dagrun.JSON(fmt.Sprintf("%q", item)), nil
	}}
}

// ByOutputs chooses by the length of the outputs: one of the Of replacements, two, none, or with an error.
type ByOutputs struct{ Of int }

// Choose returns the choice.
func (b ByOutputs) Choose(outputs dagrun.JSON) ([]dagrun.Choice, error) {
	n := len(outputs)
	switch n % 4 {
	case 0:
		return []dagrun.Choice{{With: n % b.Of, Value: `"x"`}}, nil
	case 1:
		return nil, nil
	case 2:
		return nil, errCondition
	}
	return []dagrun.Choice{{With: b.Of - 1}, {With: 0, Value: `"x"`}}, nil
}

// Keys expands to items with these keys.
type Keys []string

// Expand returns the items.
func (k Keys) Expand(dagrun.Scope) ([]dagrun.Item, error) {
	var items []dagrun.Item
	for _, key := range k {
		items = append(items, dagrun.Item{Key: key, Value: dagrun.JSON(fmt.Sprintf("%q", key))})
	}
	return items, nil
}

// NoItems fails to expand.
type NoItems struct{}

// Expand returns an error.
func (NoItems) Expand(dagrun.Scope) ([]dagrun.Item, error) { return nil, errCondition }

// Key is a constant text; "" is an error.
type Key string

// Text returns the key.
func (k Key) Text(dagrun.Scope) (string, error) {
	if k == "" {
		return "", errCondition
	}
	return string(k), nil
}

// Prio is a constant number; a number below -100 is an error.
type Prio int

// Number returns the priority.
func (p Prio) Number(dagrun.Scope) (int, error) {
	if p < -100 {
		return 0, errCondition
	}
	return int(p), nil
}
