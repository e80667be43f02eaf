// Package postgres executes postgres.query steps, and Go functions that want a transaction.
//
// All statements of a task run in one transaction. Where its connection leads to the run's own database, the result of
// the task becomes durable in that transaction too, as its last statement: such a task happens exactly once, through
// crashes, takeovers and lost replies. Elsewhere it happens at least once.
//
// Whoever makes an Action gives it connections by name, calls Use at each registration of the worker, and Close once no
// task runs any more. All connections of an Action share one budget, apart from those of the worker itself: however many
// tasks there are, and however slow they are, they cannot get in the way of its lease.
//
// An Action is safe for concurrent use. It knows no graph, and shows nobody a URL.
package postgres
