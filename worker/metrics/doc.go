// Package metrics counts what a worker does, for Prometheus. docs/metrics.md lists every metric.
//
// A Set is the worker's meter: hand it to worker.Config.Meter, and its Queue to queue.Config.Meter. What is to be read when
// somebody looks comes in by Watch, WatchLogs, WatchQueue and WatchPrune, each of which may be left out.
//
// How many series there are depends on what this package and the worker know, never on data: labels are states, outcomes,
// the kinds of bodies that the worker executes. Names of DAGs are a label only where PerDAG asks for it, and then up to a
// limit. No run, task or host is a label.
//
// Counting never blocks. A scrape waits for half a second at most for each of the two questions to the database, and not more often than every five.
package metrics
