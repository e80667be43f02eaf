// Package postgres executes postgres.query steps, and Go functions that get a transaction.
//
// All statements of a task run in one transaction. If the connection leads to the run's own database, the last statement of that
// transaction stores the result of the task. Such a task happens exactly once, through crashes, takeovers and lost replies. In
// other databases it happens at least once. If the run's own database goes away before the commit, the attempt is lost, not failed.
//
// A program gives an Action connections by name, calls Use at each registration of the worker, and Close once no task runs. All
// connections of an Action share one budget, which is separate from the connections of the worker itself. So even many slow tasks
// cannot delay the renewal of the worker's lease.
//
// An Action is safe for concurrent use. It does not know the graph. No error and no log of it contains a URL.
package postgres
