// Package worker drives runs: it claims them, keeps the lease, gives slots to tasks, has executors run their bodies, and
// hands everything on when it stops.
//
// It decides nothing about a run (that is package dagrun) and stores nothing (that is package queue). It knows no pgx, no
// SQL and no YAML.
package worker
