package worker

import (
	"cmp"
	"container/heap"
)

// inOrder compares by who goes first.
func inOrder(a, b *Ticket) int {
	return cmp.Or(
		cmp.Compare(b.order.Run, a.order.Run), cmp.Compare(b.order.Step, a.order.Step),
		cmp.Compare(a.order.Since, b.order.Since), cmp.Compare(a.nth, b.nth),
	)
}

// tickets are those that wait, the first on top.
type tickets []*Ticket

func (q tickets) Len() int           { return len(q) }
func (q tickets) Less(i, j int) bool { return inOrder(q[i], q[j]) < 0 }

func (q tickets) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// nth is the ticket that n others go before, nil if there are no more than n. It goes down the heap as far as it must.
func (q tickets) nth(n int) *Ticket {
	if n >= len(q) {
		return nil
	}
	next := &places{of: q, at: []int{0}}
	for range n {
		i := heap.Pop(next).(int) //nolint:forcetypeassert // ours alone
		for _, below := range []int{2*i + 1, 2*i + 2} {
			if below < len(q) {
				heap.Push(next, below)
			}
		}
	}
	return q[next.at[0]]
}

// places are indices of a heap, by the tickets that stand there.
type places struct {
	of tickets
	at []int
}

func (p *places) Len() int           { return len(p.at) }
func (p *places) Less(i, j int) bool { return inOrder(p.of[p.at[i]], p.of[p.at[j]]) < 0 }
func (p *places) Swap(i, j int)      { p.at[i], p.at[j] = p.at[j], p.at[i] }

// Push is container/heap's.
func (p *places) Push(x any) { p.at = append(p.at, x.(int)) } //nolint:forcetypeassert // ours alone

// Pop is container/heap's.
func (p *places) Pop() any {
	last := len(p.at) - 1
	i := p.at[last]
	p.at = p.at[:last]
	return i
}

// Push is container/heap's.
func (q *tickets) Push(x any) {
	t := x.(*Ticket) //nolint:forcetypeassert // ours alone
	t.place = len(*q)
	*q = append(*q, t)
}

// Pop is container/heap's.
func (q *tickets) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	t.place = -1
	return t
}
