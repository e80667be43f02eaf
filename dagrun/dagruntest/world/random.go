package world

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// randomSpec is a small graph with some of everything.
func (w *World) randomSpec() dagrun.Spec {
	spec := dagrun.Spec{FailFast: w.chance(0.1)}
	if w.chance(0.1) {
		spec.Timeout = 4 * ttl
	}
	if w.chance(0.2) {
		spec.MaxActive = 1 + w.rng.IntN(2)
	}
	for i := range 1 + w.rng.IntN(6) {
		step := w.randomBody()
		step.Name = fmt.Sprintf("s%d", i)
		w.randomEdges(&step, i)
		if step.Body == dagrun.BodyTask && step.Result == nil && w.chance(0.15) {
			step.Foreach = &dagrun.Foreach{Items: someItems(w.rng.IntN(4)), MaxConcurrent: w.rng.IntN(3), FailFast: w.chance(0.2)}
		}
		spec.Steps = append(spec.Steps, step)
	}
	for _, name := range []string{dagrun.InitHandler, dagrun.SuccessHandler, dagrun.FailureHandler, dagrun.AbortHandler, dagrun.ExitHandler} {
		if w.chance(0.15) {
			spec.Handlers = append(spec.Handlers, dagrun.Step{Name: name})
		}
	}
	return spec
}

func (w *World) randomEdges(step *dagrun.Step, i int) {
	for p := range i {
		if w.chance(0.4) {
			edge := dagrun.Edge{Step: fmt.Sprintf("s%d", p)}
			if w.chance(0.2) {
				edge.State = dagrun.EdgeState(w.rng.IntN(3))
			}
			step.Depends = append(step.Depends, edge)
		}
	}
	if len(step.Depends) > 0 && w.chance(0.4) {
		step.Rule = dagrun.Rule(w.rng.IntN(int(dagrun.NoneSkipped) + 1))
	}
}

// randomBody is what steps and replacements have.
func (w *World) randomBody() dagrun.Step {
	step := dagrun.Step{Publish: w.chance(0.1), OnLost: dagrun.OnLost(w.rng.IntN(8) / 7)}
	if w.chance(0.25) {
		step.Body = dagrun.Body(w.rng.IntN(int(dagrun.BodyChild) + 1))
	}
	if w.chance(0.3) {
		step.Retry = dagrun.RetryPolicy{Limit: 1 + w.rng.IntN(3), Interval: dagrun.Duration(w.rng.IntN(40_000)), Backoff: 2, Jitter: 0.2}
	}
	if w.chance(0.2) {
		step.Timeout = ttl
	}
	if w.chance(0.15) {
		step.OnError = []dagrun.ErrorRule{w.randomRule()}
	}
	if w.chance(0.1) {
		step.CacheKey = cacheKey{}
	}
	if w.chance(0.05) {
		step.Result = &dagrun.Result{Outputs: `{"pre":true}`}
	}
	step.ContinueOn = dagrun.ContinueOn{Failed: w.chance(0.1), Skipped: w.chance(0.1), MarkSuccess: w.chance(0.05)}
	return step
}

func (w *World) randomRule() dagrun.ErrorRule {
	rule := dagrun.ErrorRule{Do: dagrun.Do(w.rng.IntN(int(dagrun.DoReplace) + 1))}
	if rule.Do == dagrun.DoReplace {
		for range 1 + w.rng.IntN(2) {
			rule.With = append(rule.With, dagrun.Step{Retry: dagrun.RetryPolicy{Limit: w.rng.IntN(2), Interval: 1_000}})
		}
	}
	return rule
}

// randomEnd is how a body ends by itself.
func (w *World) randomEnd() dagrun.Result {
	switch n := w.rng.IntN(100); {
	case n < 70:
		return dagrun.Result{Outputs: dagrun.JSON(fmt.Sprintf(`{"n":%d}`, w.rng.IntN(1000)))}
	case n < 73:
		return dagrun.Result{SnoozeUntil: w.after(3 * ttl)}
	case n < 80:
		return dagrun.Result{Kind: dagrun.KindSpawn}
	default:
		return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 1 + w.rng.IntN(3), HasExit: true}
	}
}

type cacheKey struct{}

func (cacheKey) Text(dagrun.Scope) (string, error) { return "key", nil }

// someItems is a foreach over that many items; three cannot be worked out.
type someItems int

func (n someItems) Expand(dagrun.Scope) ([]dagrun.Item, error) {
	if n == 3 {
		return nil, errors.New("no list")
	}
	items := make([]dagrun.Item, n+1)
	for i := range items {
		items[i] = dagrun.Item{Key: string(rune('a' + i)), Value: "0"}
	}
	return items, nil
}

// sorted goes through a map by task in graph order.
func sorted[V any](of map[dagrun.TaskID]V) iter.Seq2[dagrun.TaskID, V] {
	keys := slices.SortedFunc(maps.Keys(of), func(a, b dagrun.TaskID) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Alt, b.Alt))
	})
	return func(yield func(dagrun.TaskID, V) bool) {
		for _, k := range keys {
			if !yield(k, of[k]) {
				return
			}
		}
	}
}
