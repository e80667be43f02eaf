package worker

import "cmp"

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
