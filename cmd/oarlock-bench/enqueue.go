package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
)

var (
	enqueueSQL     = sql.Named("bench/enqueue")
	enqueueManySQL = sql.Named("bench/enqueue_many")
	insertManySQL  = sql.Named("bench/insert_many")
	arriveOneSQL   = sql.Named("bench/arrive")
	arriveManySQL  = sql.Named("bench/arrive_many")
)

const (
	askedOnce = 5000
	askedMany = 100 // times bulkRows
	bulkRows  = 1000

	oneFunction  = "SQL, oarlock.enqueue"
	oneInsert    = "SQL, insert into inbox"
	oneGo        = "Go, Enqueue"
	oneBare      = "bare insert"
	oneRiver     = "River, Insert"
	manyFunction = "SQL, enqueue_many"
	manyInsert   = "SQL, insert into inbox of 1,000"
	manyGo       = "Go, EnqueueMany"
	manyBare     = "bare insert of 1,000"
	manyRiver    = "River, InsertManyFast"
)

func enqueueCase() Case {
	return Case{
		Name: "enqueue", About: "Asking for runs: 5,000 one by one, each in a transaction of its own; 100,000 in statements of 1,000. One client, no worker.",
		Bound:    "one by one: the commit; in bulk: the row, its four indexes and its checks; for the inbox also a trigger per row",
		Settings: []string{"params of two keys, as the DAG declares them; one connection each"},
		Prepare:  prepareEnqueue,
		Goals: []Goal{
			{Side: oneGo, Metric: runsPerSecond, AtLeast: 5000},
			{Side: oneFunction, Metric: runsPerSecond, AtLeast: 5000},
			{Side: oneInsert, Metric: runsPerSecond, AtLeast: 5000},
			{Side: manyFunction, Metric: runsPerSecond, AtLeast: 40_000},
			{Side: manyInsert, Metric: runsPerSecond, AtLeast: 15_000},
			{Side: oneFunction, Metric: runsPerSecond, Of: oneBare, AtLeast: 0.5, Guarded: true},
			{Side: oneGo, Metric: runsPerSecond, Of: oneBare, AtLeast: 0.5, Guarded: true},
			{Side: manyFunction, Metric: runsPerSecond, Of: manyBare, AtLeast: 0.4, Guarded: true},
			{Side: manyInsert, Metric: runsPerSecond, Of: manyBare, AtLeast: 0.1, Guarded: true},
			{Side: oneGo, Metric: runsPerSecond, Of: oneRiver},
			{Side: manyGo, Metric: runsPerSecond, Of: manyRiver},
		},
	}
}

const asked = `
name: asked
params:
  - {name: day, type: string, required: true}
  - {name: n, type: integer, default: 1}
steps: [{id: a, action: nothing}]
`

var someParams = map[string]any{"day": "2026-11-20", "n": 3}

func prepareEnqueue(ctx context.Context, s *Stage) (sides []Side, err error) {
	one, many := s.count(askedOnce, 20), s.count(askedMany, 2)
	rows := make([]map[string]any, bulkRows)
	values := make([]any, bulkRows)
	for i := range rows {
		rows[i], values[i] = someParams, someParams
	}
	for _, way := range []struct {
		name  string
		times int
		each  int
		ask   func(ctx context.Context, d *Database) error
	}{
		{oneFunction, one, 1, sends(enqueueSQL, "asked", someParams)},
		{oneInsert, one, 1, sends(insertSQL, "asked", someParams)},
		{oneGo, one, 1, func(ctx context.Context, d *Database) error {
			_, err := d.Enqueue(ctx, queue.Request{DAG: "asked", Params: someParams})
			return err
		}},
		{oneBare, one, 1, sends(arriveOneSQL, someParams)},
		{manyFunction, many, bulkRows, sends(enqueueManySQL, "asked", rows)},
		{manyInsert, many, bulkRows, sends(insertManySQL, "asked", rows)},
		{manyGo, many, bulkRows, func(ctx context.Context, d *Database) error {
			_, err := d.EnqueueMany(ctx, queue.Bulk{DAG: "asked", Params: values})
			return err
		}},
		{manyBare, many, bulkRows, sends(arriveManySQL, rows)},
	} {
		d, err := s.database(ctx, asked)
		if err != nil {
			return nil, err
		}
		sides = append(sides, asking(way.name, d, way.times, way.each, way.ask))
	}
	others, err := riverAsking(ctx, s, one, many)
	return append(sides, others...), err
}

// sends has a client send a statement.
func sends(statement string, args ...any) func(context.Context, *Database) error {
	return func(ctx context.Context, d *Database) error {
		_, err := d.conn.Exec(ctx, statement, args...)
		return err
	}
}

// asking is a side that asks so many times, each time for so many runs.
func asking(name string, d *Database, times, each int, ask func(context.Context, *Database) error) Side {
	return Side{Name: name, Count: d, Round: func(ctx context.Context) (Sample, error) {
		begun := time.Now()
		for range times {
			if err := ask(ctx, d); err != nil {
				return Sample{}, err
			}
		}
		return Sample{Units: float64(times * each), Values: perSecond(runsPerSecond, times*each, time.Since(begun))}, nil
	}}
}

// riverAsking inserts with a client that works nothing.
func riverAsking(ctx context.Context, s *Stage, one, many int) ([]Side, error) {
	r, err := s.river(ctx, riverTuned)
	if err != nil {
		return nil, err
	}
	r.work = func(context.Context, *river.Client[pgx.Tx], *river.Job[riverArgs]) error { return nil }
	client, err := r.newClient()
	if err != nil {
		return nil, err
	}
	return []Side{
		asking(oneRiver, r.Database, one, 1, func(ctx context.Context, _ *Database) error {
			_, err := client.Insert(ctx, riverArgs{Steps: 1}, nil)
			return err
		}),
		asking(manyRiver, r.Database, many, bulkRows, func(ctx context.Context, _ *Database) error {
			return r.insert(ctx, client, bulkRows, riverArgs{Steps: 1})
		}),
	}, nil
}
