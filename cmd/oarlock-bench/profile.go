package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"

	"github.com/oarlock-dev/oarlock/sql"
)

var topSQL = sql.Named("bench/ask_top")

// startProfile profiles this process where that is asked for.
func (o *options) startProfile(name string) (stop func(), err error) {
	if o.profile == "" {
		return func() {}, nil
	}
	file, err := os.Create(filepath.Join(o.profile, name+".pprof")) //nolint:gosec // where somebody wants it
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}, nil
}

// writeStatements leaves beside the profile what each side asked the server, by the time that took.
func (o *options) writeStatements(ctx context.Context, name string, sides []Side) error {
	if o.profile == "" {
		return nil
	}
	file, err := os.Create(filepath.Join(o.profile, name+".statements"))
	if err != nil {
		return err
	}
	for _, side := range sides {
		if err := side.Count.writeTop(ctx, file, side.Name); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	return file.Close()
}

func (d *Database) writeTop(ctx context.Context, w io.Writer, side string) error {
	if d == nil || !d.counting {
		return nil
	}
	rows, err := d.asker.Query(ctx, topSQL)
	if err != nil {
		return err
	}
	defer rows.Close()
	fmt.Fprintf(w, "%s\n%10s %10s %10s %10s %12s\n", side, "calls", "ms", "rows", "buffers", "WAL bytes")
	for rows.Next() {
		var calls, n, buffers int64
		var ms, wal float64
		var query string
		if err := rows.Scan(&calls, &ms, &n, &buffers, &wal, &query); err != nil {
			return err
		}
		fmt.Fprintf(w, "%10d %10.0f %10d %10d %12.0f  %s\n", calls, ms, n, buffers, wal, query)
	}
	return rows.Err()
}
