package pgtest

import (
	"encoding/json"
	"testing"
)

// Plan is a node of the output of EXPLAIN (FORMAT JSON). Buffers and rows need ANALYZE and BUFFERS.
type Plan struct {
	Node     string  `json:"Node Type"`
	Name     string  `json:"Subplan Name"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Rows     float64 `json:"Actual Rows"` // the mean of all loops, which PostgreSQL before 18 rounds
	Hit      int     `json:"Shared Hit Blocks"`
	Read     int     `json:"Shared Read Blocks"`
	Plans    []Plan  `json:"Plans"`
}

// Explained decodes the output of EXPLAIN (FORMAT JSON).
func Explained(tb testing.TB, answer []byte) *Plan {
	tb.Helper()
	var plans []struct {
		Plan Plan `json:"Plan"`
	}
	if err := json.Unmarshal(answer, &plans); err != nil || len(plans) != 1 {
		tb.Fatalf("read a plan: %v: %s", err, answer)
	}
	return &plans[0].Plan
}

// Walk visits a plan and all nodes below it.
func (p *Plan) Walk(visit func(*Plan)) {
	visit(p)
	for i := range p.Plans {
		p.Plans[i].Walk(visit)
	}
}

// Find returns the first node of a type, or nil.
func (p *Plan) Find(node string) (found *Plan) {
	p.Walk(func(q *Plan) {
		if found == nil && q.Node == node {
			found = q
		}
	})
	return found
}

// Buffers returns how many pages a node read, including all nodes below it.
func (p *Plan) Buffers() int { return p.Hit + p.Read }
