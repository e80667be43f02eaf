// Package metrics counts what a worker does, for Prometheus. docs/metrics.md lists every metric.
//
// A Set is the worker's meter: pass it to worker.Config.Meter, and its Queue to queue.Config.Meter. Watch, WatchLogs, WatchQueue,
// WatchPools and WatchPrune set the sources of numbers that are read at each scrape; each of them is optional.
//
// The number of series depends on what this package and the worker know, never on data: labels are states, outcomes, and the
// kinds of bodies that the worker executes. The names of DAGs are a label only if PerDAG is set, and then up to a limit. So are the
// names of pools, which administrators make. No run, task, host or key of a pool is a label.
//
// Counting never blocks. A scrape waits at most half a second for each of the three questions to the database, and asks each at
// most every five seconds.
package metrics
