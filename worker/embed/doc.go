// Package embed fits out a worker: it opens the store, makes the executors, ships the logs, and ties the worker to the guard
// that watches it, if one does. `oarlock worker` is this package behind flags; a Go program that wants to run DAGs in its
// own process, with functions of its own as actions, uses it as it is:
//
//	w, err := embed.New(embed.Config{Database: queue.Config{Pool: pool}, Slots: 8})
//	if err != nil {
//		return err
//	}
//	w.Handle("charge", func(ctx context.Context, task *worker.Task) (worker.Outputs, error) { … })
//	return w.Run(ctx)
//
// Without a guard (a nil Link) nobody ends what a frozen or killed process leaves behind: the lease in the database decides
// when others go on, and they may do so while an orphan of this one still runs. Go functions are asked to end by their
// context; one that does not by the time the lease is over ends the process, unless Config.KeepProcess says otherwise.
//
// What is decided about runs is package dagrun's, what is stored package queue's, how bodies are executed each executor's.
package embed
