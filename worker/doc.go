// Package worker drives runs: it claims them, keeps the lease, gives slots to tasks, has executors run their bodies, and
// leaves its runs to other workers when it stops.
//
// Package dagrun decides what a run does next, and package queue stores it. Package worker uses no pgx, no SQL and no YAML.
package worker
