// Package embed assembles a worker: it opens the store, makes the executors, ships the logs, and connects the worker to its
// guard, if there is one. `oarlock worker` is this package with flags. A Go program that runs DAGs in its own process, with its
// own functions as actions, uses the package directly:
//
//	w, err := embed.New(embed.Config{Database: queue.Config{Pool: pool}, Slots: 8})
//	if err != nil {
//		return err
//	}
//	w.Handle("charge", func(ctx context.Context, task *worker.Task) (worker.Outputs, error) { … })
//	return w.Run(ctx)
//
// Without a guard (a nil Link) the processes that a frozen or killed worker leaves behind are not ended. The lease in the
// database decides when another worker takes over, and it may do so while an orphan of this worker still runs. Go functions are
// asked to end through their context. If a function still runs when the lease is over, the process exits, unless
// Config.KeepProcess is set.
//
// Package dagrun decides about runs, package queue stores them, and the executors execute bodies.
package embed
