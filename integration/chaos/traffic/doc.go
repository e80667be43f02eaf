// Package traffic makes up what a fault run has workers do: graphs, runs of them, and requests to those runs, all from one
// seed. It also foretells how each run that nobody cancels must end, whatever happens to those who drive it.
//
// It knows the language of DAG files and nothing else: no clock, no database, no processes. A Plan is read-only once made.
package traffic
