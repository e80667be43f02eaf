package script

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// condition is a small expression language for scripts: true, false, error, costly (true, at the highest permitted cost),
// or left==right, where left is state(step), outputs(step), item, kind, exit, attempt, chosen or run.
type condition string

func (c condition) String() string { return string(c) }

func (c condition) Eval(s dagrun.Scope) (bool, error) {
	switch c {
	case "true":
		return true, nil
	case "false":
		return false, nil
	case "error":
		return false, errBroken
	case "costly":
		if meter, ok := s.(dagrun.Spender); ok {
			meter.Spend(mostUnits)
		}
		return true, nil
	}
	left, right, ok := strings.Cut(string(c), "==")
	if !ok {
		return false, fmt.Errorf("condition %q: write left==right", string(c))
	}
	got, err := lookUp(s, left)
	return got == right, err
}

// mostUnits is the highest cost of an expression.
const mostUnits = 20_000_000

var errBroken = errors.New("no such thing")

func lookUp(s dagrun.Scope, what string) (string, error) {
	name, arg, _ := strings.Cut(strings.TrimSuffix(what, ")"), "(")
	step, known := s.Step(arg)
	item, _ := s.Item()
	failure, _ := s.Failure()
	switch name {
	case "state":
		return step.State.String(), unknownUnless(known, arg)
	case "outputs":
		return string(step.Outputs), unknownUnless(known, arg)
	case "item":
		return item.Key, nil
	case "kind":
		return string(failure.Kind), nil
	case "exit":
		return strconv.Itoa(failure.ExitCode), nil
	case "attempt":
		return strconv.Itoa(failure.Attempt), nil
	case "chosen":
		return fmt.Sprint(failure.Chosen), nil
	case "run":
		return s.Run().State.String(), nil
	case "failed":
		return strings.Join(s.Run().Failed, "+"), nil
	}
	return "", fmt.Errorf("condition: %q is unknown", what)
}

func unknownUnless(known bool, step string) error {
	if known {
		return nil
	}
	return fmt.Errorf("step %q is unknown", step)
}

// number is a priority; "error" stands for an expression that fails.
type number string

func (n number) Number(dagrun.Scope) (int, error) {
	if n == "error" {
		return 0, errBroken
	}
	return strconv.Atoi(string(n))
}

// text is a cache key.
type text string

func (t text) Text(dagrun.Scope) (string, error) {
	if t == "error" {
		return "", errBroken
	}
	return string(t), nil
}

// keys are the items of a foreach: a comma list of keys, "none", "error", or "failed" for the tasks that failed so far. The value of
// an item is its key in quotes.
type keys string

func (k keys) Expand(s dagrun.Scope) ([]dagrun.Item, error) {
	if k == "failed" {
		k = keys(strings.Join(s.Run().Failed, ","))
	}
	if k == "error" {
		return nil, errBroken
	}
	if k == "none" {
		return nil, nil
	}
	var items []dagrun.Item
	for key := range strings.SplitSeq(string(k), ",") {
		items = append(items, dagrun.Item{Key: key, Value: dagrun.JSON(strconv.Quote(key))})
	}
	return items, nil
}

// chooser reads outputs such as 1:"x",0 as replacements of a rule: the number of a body, and its item if it has one. Outputs of none
// choose nothing.
type chooser struct{}

func (chooser) Choose(outputs dagrun.JSON) (list []dagrun.Choice, err error) {
	if outputs == "none" {
		return nil, nil
	}
	for word := range strings.SplitSeq(string(outputs), ",") {
		number, value, _ := strings.Cut(word, ":")
		with, err := strconv.Atoi(number)
		if err != nil || with > 1 {
			return nil, fmt.Errorf("no replacement is called %q", number)
		}
		list = append(list, dagrun.Choice{With: with, Value: dagrun.JSON(value)})
	}
	return list, nil
}
