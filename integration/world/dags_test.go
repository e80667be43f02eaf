package world

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// childDAG is the DAG of child runs. Bodies behave as the seed decides, so the text of a body means nothing.
const childDAG = "name: child\nsteps:\n  - {id: a, run: x}\n  - {id: b, run: x, depends: [a]}\n"

// randomDAG returns the file of a DAG.
func randomDAG(r *rand.Rand, name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\nmax_drives: %d\n", name, 3+r.IntN(4))
	if oneIn(r, 4) {
		fmt.Fprintf(&b, "priority: %d\n", 1+r.IntN(9))
	}
	if oneIn(r, 6) {
		b.WriteString("fail_fast: true\n")
	}
	if oneIn(r, 6) {
		fmt.Fprintf(&b, "max_active_steps: %d\n", 1+r.IntN(3))
	}
	if oneIn(r, 5) {
		fmt.Fprintf(&b, "concurrency: {limit: %d}\n", 1+r.IntN(2))
	}
	if oneIn(r, 8) {
		fmt.Fprintf(&b, "timeout: %ds\n", 20+r.IntN(60))
	}
	if oneIn(r, 3) {
		b.WriteString("handler_on:\n")
		for _, h := range []string{"init", "success", "failure", "abort", "exit"} {
			if oneIn(r, 2) {
				fmt.Fprintf(&b, "  %s: {run: x}\n", h)
			}
		}
		b.WriteString(ensureHandler(b.String()))
	}
	b.WriteString("steps:\n")
	shape := r.IntN(4)
	for i := range 2 + r.IntN(7) {
		fmt.Fprintf(&b, "  - {id: s%d, %s%s%s}\n", i, randomBody(r), depends(r, shape, i), randomRules(r))
	}
	return b.String()
}

// ensureHandler adds a handler to a handler_on without any.
func ensureHandler(text string) string {
	if strings.HasSuffix(text, "handler_on:\n") {
		return "  exit: {run: x}\n"
	}
	return ""
}

// depends draws the parents for a chain, a fan, diamonds, or any graph.
func depends(r *rand.Rand, shape, i int) string {
	var parents []string
	for p := range i {
		var is bool
		switch shape {
		case 0:
			is = p == i-1
		case 1:
			is = p == 0
		case 2:
			is = i%3 == 0 && p >= i-2 || i%3 != 0 && p == i-i%3
		default:
			is = oneIn(r, 3)
		}
		if is {
			parents = append(parents, edge(r, p))
		}
	}
	if len(parents) == 0 {
		return ""
	}
	return ", depends: [" + strings.Join(parents, ", ") + "]"
}

func edge(r *rand.Rand, parent int) string {
	switch r.IntN(12) {
	case 0:
		return fmt.Sprintf("{step: s%d, state: started}", parent)
	case 1:
		return fmt.Sprintf("{step: s%d, state: finished}", parent)
	default:
		return fmt.Sprintf("s%d", parent)
	}
}

func randomBody(r *rand.Rand) string {
	switch r.IntN(14) {
	case 0:
		return fmt.Sprintf("action: wait, with: {duration: %ds}", 1+r.IntN(60))
	case 1:
		return "action: approval, with: {prompt: sure}"
	case 2:
		return "action: dag.run, with: {dag: child}"
	case 3:
		return "action: noop"
	case 4:
		return "run: x, foreach: {items: [p, q, r]}"
	case 5:
		return "run: x, publish: {run: y}"
	case 6:
		return "run: x, publish: {run: y, pool: narrow}"
	case 7:
		return "run: x, pool: " + []string{"narrow", "[wide, narrow]", "{name: wide, weight: 2}", "wide"}[r.IntN(4)]
	default:
		return "run: x"
	}
}

func randomRules(r *rand.Rand) string {
	var b strings.Builder
	if oneIn(r, 2) {
		fmt.Fprintf(&b, ", retry_policy: {limit: %d, interval: %ds}", 1+r.IntN(3), 1+r.IntN(10))
	}
	if oneIn(r, 5) {
		fmt.Fprintf(&b, ", timeout: %ds", 2+r.IntN(8))
	}
	if oneIn(r, 6) {
		b.WriteString(", continue_on: failed")
	}
	if oneIn(r, 6) {
		b.WriteString(", on_lost: fail")
	}
	if oneIn(r, 6) {
		b.WriteString(", trigger_rule: all_done")
	}
	return b.String()
}
