// Package metrics counts what a worker does, for Prometheus. docs/metrics.md lists every metric.
//
// A Set is the worker's meter: pass it to worker.Config.Meter, and its Queue to queue.Config.Meter. Watch, WatchLogs, WatchQueue
// and WatchPrune set the sources of numbers that are read at each scrape; each of them is optional.
//
// The number of series depends on what this package and the worker know, never on data: labels are states, outcomes, and the
// kinds of bodies that the worker executes. The names of DAGs are a label only if PerDAG is set, and then up to a limit. No run,
// task or host is a label.
//
// Counting never blocks. A scrape waits at most half a second for each of the two questions to the database, and asks each at
// most every five seconds.
package metrics
