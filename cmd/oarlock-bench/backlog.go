package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
)

var (
	historySQL  = sql.Named("bench/history")
	backlogSQL  = sql.Named("bench/backlog")
	laneSQL     = sql.Named("bench/ask_lane")
	lockHeadSQL = sql.Named("bench/lock_head")
	vacuumSQL   = sql.Named("bench/vacuum")
	countedSQL  = sql.Named("bench/ask_counted")
)

const (
	historyRuns  = 5_000_000
	historyBatch = 100_000
	claimBatch   = 32 // runs of one poll
	claimPolls   = 20 // polls of one round

	msPerPoll      = "ms per claim of 32"
	headBuffers    = "buffers to lock the head of a lane"
	pollBuffers    = "buffers per poll"
	pollStatement  = "/* oarlock queue/claim */"
	shallow        = "1,000 queued"
	deeper         = "100,000 queued"
	deepest        = "1,000,000 queued"
	backlogLineage = "name: %s\nqueue: %[1]s\nsteps: [{id: a, action: noop}]\n"
)

func backlogCase() Case {
	return Case{
		Name: "backlog", About: "Claims of 32 runs from queues with 1,000, 100,000 and 1,000,000 runs, in a database with 5,000,000 finished ones.",
		Bound:    "the rows that are claimed, not those that wait: an index from the head of each lane",
		Settings: []string{"sessions of package queue, one per depth, each for a queue of its own; what a round claims is given back"},
		Quick:    0.2, // making rows takes most of the time
		Prepare:  prepareBacklog,
		Goals: []Goal{
			{Side: deepest, Metric: msPerPoll, Of: shallow, AtMost: 1.3, Guarded: true, Slack: 0.5},
			{Side: deeper, Metric: msPerPoll, Of: shallow, AtMost: 1.3},
			{Side: shallow, Metric: headBuffers, AtMost: 20},
			{Side: deepest, Metric: headBuffers, AtMost: 20},
			{Side: deepest, Metric: pollBuffers, Of: shallow},
		},
	}
}

func prepareBacklog(ctx context.Context, s *Stage) (sides []Side, err error) {
	d, err := s.database(ctx, "name: past\nsteps: [{id: a, action: noop}]\n")
	if err != nil {
		return nil, err
	}
	for left := s.count(historyRuns, 2000); left > 0; left -= historyBatch {
		if _, err := d.conn.Exec(ctx, historySQL, "past", min(left, historyBatch)); err != nil {
			return nil, err
		}
	}
	for i, depth := range []struct {
		name string
		runs int
	}{{shallow, 1000}, {deeper, s.count(100_000, 1500)}, {deepest, s.count(1_000_000, 2000)}} {
		dag := fmt.Sprintf("depth%d", i)
		if err := d.put(ctx, fmt.Sprintf(backlogLineage, dag)); err != nil {
			return nil, err
		}
		if _, err := d.conn.Exec(ctx, backlogSQL, dag, depth.runs); err != nil {
			return nil, err
		}
		sides = append(sides, Side{Name: depth.name, Round: func(ctx context.Context) (Sample, error) { return d.claims(ctx, dag) }})
	}
	_, err = d.conn.Exec(ctx, vacuumSQL)
	return sides, err
}

// claims measures one round on the queue called dag. It claims claimBatch runs in each of claimPolls polls, and closes the session,
// which gives all of them back. It returns the median time of a poll, and how many buffers it takes to lock the head of the lane.
func (d *Database) claims(ctx context.Context, dag string) (_ Sample, err error) {
	head, err := d.headOf(ctx, dag)
	if err != nil {
		return Sample{}, err
	}
	session, err := d.Register(ctx, queue.Worker{Name: dag, Host: "bench", Queues: []string{dag}, Offers: []string{"action:noop"}, Slots: claimBatch, Containment: "none"})
	if err != nil {
		return Sample{}, err
	}
	defer func() { err = errors.Join(err, session.Close(context.WithoutCancel(ctx))) }()
	if _, err := session.Poll(ctx, queue.Want{}); err != nil { // reads the lanes, before the measurement
		return Sample{}, err
	}
	calls, buffers, err := d.polled(ctx)
	if err != nil {
		return Sample{}, err
	}
	var took []time.Duration
	for range claimPolls {
		begun := time.Now()
		polled, err := session.Poll(ctx, queue.Want{Slots: claimBatch, Free: claimBatch})
		if err != nil {
			return Sample{}, err
		}
		took = append(took, time.Since(begun))
		if len(polled.Claims) != claimBatch {
			return Sample{}, fmt.Errorf("a poll brought %d runs of %d", len(polled.Claims), claimBatch)
		}
	}
	values := Values{msPerPoll: milliseconds(quantile(took, 0.5)), headBuffers: head}
	callsNow, buffersNow, err := d.polled(ctx)
	if d.counting {
		values[pollBuffers] = (buffersNow - buffers) / (callsNow - calls)
	}
	return Sample{Values: values}, err
}

// polled returns how often workers polled this database so far, and how many buffers these polls took. Both are 0 if the server
// does not count statements.
func (d *Database) polled(ctx context.Context) (calls, buffers float64, err error) {
	if d.counting {
		err = d.asker.QueryRow(ctx, countedSQL, pollStatement).Scan(&calls, &buffers)
	}
	return calls, buffers, err
}

// headOf returns how many buffers it takes to lock the first waiting run of a DAG.
func (d *Database) headOf(ctx context.Context, dag string) (float64, error) {
	var lane int
	if err := d.asker.QueryRow(ctx, laneSQL, dag).Scan(&lane); err != nil {
		return 0, err
	}
	var text []byte
	if err := d.conn.QueryRow(ctx, lockHeadSQL, lane, 1).Scan(&text); err != nil {
		return 0, err
	}
	var plans []struct {
		Plan struct {
			Hit  float64 `json:"Shared Hit Blocks"`
			Read float64 `json:"Shared Read Blocks"`
		} `json:"Plan"`
	}
	if err := json.Unmarshal(text, &plans); err != nil || len(plans) != 1 {
		return 0, fmt.Errorf("read a plan: %w", errors.Join(err, errors.New(string(text))))
	}
	return plans[0].Plan.Hit + plans[0].Plan.Read, nil
}
