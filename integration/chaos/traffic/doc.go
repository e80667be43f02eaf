// Package traffic invents the work of a fault run: graphs, runs of them, and requests to those runs, all from one seed.
// It also predicts the end of each run that is not canceled, whatever happens to its drivers.
//
// The package knows the language of DAG files and nothing else: no clock, no database, no processes. A Plan is read-only
// once made.
package traffic
