package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
)

var unfinishedSQL = sql.Named("bench/ask_unfinished")

// Stage is where one case is played: its databases, workers and files, all gone afterwards.
type Stage struct {
	*Lab

	name string
	ends []func() error
}

func (l *Lab) stage(name string) *Stage { return &Stage{Lab: l, name: name} }

// later has something done at the end, the last first.
func (s *Stage) later(end func() error) { s.ends = append(s.ends, end) }

func (s *Stage) close() error {
	var errs []error
	for _, end := range slices.Backward(s.ends) {
		errs = append(errs, end())
	}
	s.ends = nil
	return errors.Join(errs...)
}

// folder makes one below dir, or below the lab's for "".
func (s *Stage) folder(dir string) (string, error) {
	made, err := os.MkdirTemp(orElse(dir, s.dir), s.name+"-")
	if err == nil {
		s.later(func() error { return os.RemoveAll(made) }) //nolint:gosec // it made it
	}
	return made, err
}

// Database is a migrated one of a side's own.
type Database struct {
	*queue.Store

	name     string
	url      string    // as its owner
	worker   string    // URL as a worker
	conn     *pgx.Conn // the client's
	asker    *pgx.Conn // for questions that belong to no side
	counting bool
}

// database makes one, with DAGs in it.
func (s *Stage) database(ctx context.Context, sources ...string) (*Database, error) {
	s.made++
	d := &Database{name: fmt.Sprintf("bench_%d", s.made), counting: s.counting}
	if err := s.exec(ctx, createDatabaseSQL, "{name}", d.name, "{template}", templateName); err != nil {
		return nil, err
	}
	s.later(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		return s.exec(ctx, dropDatabaseSQL, "{name}", d.name)
	})
	d.url = s.server.URL(d.name)
	var err error
	if d.worker, err = s.workerURL(d.name); err != nil {
		return nil, err
	}
	if d.conn, err = s.connect(ctx, d, nil); err != nil {
		return nil, err
	}
	if d.asker, err = s.connect(ctx, d, unnoticed); err != nil {
		return nil, err
	}
	if d.Store, err = queue.Open(ctx, queue.Config{URL: d.url}); err != nil {
		return nil, err
	}
	s.later(func() error { d.Close(); return nil })
	for _, source := range sources {
		if err := d.put(ctx, source); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// unnoticed keeps questions that are asked while others are measured from scanning tables.
var unnoticed = map[string]string{"enable_seqscan": "off", "jit": "off"}

// connect makes a connection of the owner's.
func (s *Stage) connect(ctx context.Context, d *Database, params map[string]string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(d.url)
	if err != nil {
		return nil, err
	}
	maps.Copy(config.RuntimeParams, params)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s.later(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		return conn.Close(ctx)
	})
	return conn, nil
}

func (d *Database) put(ctx context.Context, source string) error {
	spec, err := dagspec.Parse("bench.yaml", []byte(source))
	if err != nil {
		return err
	}
	_, err = d.PutDAG(ctx, spec, source, "bench.yaml")
	return err
}

// enqueue asks for runs of a DAG.
func (d *Database) enqueue(ctx context.Context, dag string, n int) ([]queue.RunID, error) {
	return d.EnqueueMany(ctx, queue.Bulk{DAG: dag, Params: make([]any, n)})
}

// Who asks takes time from those who work: once a millisecond at most, and no more often than by a hundredth of what it took
// so far, by which a figure is wrong at most.
const (
	askEvery = time.Millisecond
	askShare = 100
)

// settled waits until nothing is queued or driven.
func (d *Database) settled(ctx context.Context) error { return d.until(ctx, unfinishedSQL) }

// until asks again and again until the answer is false.
func (d *Database) until(ctx context.Context, question string) error {
	for begun := time.Now(); ; {
		var left bool
		if err := d.asker.QueryRow(ctx, question).Scan(&left); err != nil || !left {
			return err
		}
		select {
		case <-time.After(max(askEvery, time.Since(begun)/askShare)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
