package worker_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// A run that needs more slots than are free anywhere waits for them where it is.
func TestShare_AWideRunDoesNotGoBackAndForth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, ids := simulated(t, "name: d\nsteps:\n  - {id: a, run: 10m}\n", 6)
		b.put(t, "name: wide\nsteps:\n  - {id: a, run: 10m, slots: 4}\n")
		b.join(t, "first", 4, boot)
		b.join(t, "second", 4, boot)
		time.Sleep(time.Minute)
		if _, running := b.held(t, ids, "a"); running != 6 {
			t.Fatalf("%d run", running)
		}
		id := b.enqueue(t, "wide")
		time.Sleep(time.Minute)
		if r, err := b.Get(t.Context(), id); err != nil || r.Epoch > 8 {
			t.Errorf("it was claimed %d times within a minute, %v", r.Epoch, err)
		}
	})
}

// While a run that needs several slots waits, other runs get the slots that are free but too few for it.
func TestShare_SmallRunsPassAWideOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, _ := simulated(t, "name: d\nsteps:\n  - {id: a, run: 10m}\n", 3)
		b.put(t, "name: wide\nsteps:\n  - {id: a, run: 10m, slots: 4}\n")
		b.put(t, "name: small\nsteps:\n  - {id: a, run: 1s}\n")
		b.join(t, "first", 4, boot)
		time.Sleep(time.Minute)
		b.enqueue(t, "wide")
		time.Sleep(time.Second)
		id := b.enqueue(t, "small")
		time.Sleep(time.Minute)
		r, err := b.Get(t.Context(), id)
		if err != nil || r.State != "succeeded" {
			t.Errorf("after a minute it is %s, though a slot is free", r.State)
		}
	})
}

// However many runs came back and wait for a slot, the worker claims the next run that needs none.
func TestShare_WhatNeedsNoSlotIsHeardBesideManyThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, ids := simulated(t, "name: d\nsteps:\n  - {id: a, action: wait, with: {duration: 5m}}\n  - {id: b, run: 1h, depends: [a]}\n", 200)
		b.put(t, "name: timer\nsteps:\n  - {id: a, action: wait, with: {duration: 10m}}\n")
		timer := b.enqueue(t, "timer")
		b.join(t, "first", 1, boot)
		time.Sleep(11 * time.Minute)
		_, running := b.held(t, ids, "b")
		if r, err := b.Get(t.Context(), timer); err != nil || r.State != "succeeded" || running != 1 {
			t.Errorf("a minute after its time it is %s beside %d that run, %v", r.State, running, err)
		}
	})
}

// A full worker that is alone decides requests to many runs, however many of these runs wait for a slot afterwards.
func TestShare_AFullWorkerDecidesAllApprovals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, ids := simulated(t, "name: d\nsteps:\n  - {id: ask, action: approval}\n  - {id: b, run: 1h, depends: [ask]}\n", 100)
		b.put(t, "name: long\nsteps:\n  - {id: a, run: 10h}\n")
		b.join(t, "only", 1, boot)
		pass(time.Minute)
		b.enqueue(t, "long")
		pass(time.Minute)
		for _, id := range ids {
			if _, err := b.Control(t.Context(), queue.Ask{Run: id, Verb: dagrun.VerbApprove, Step: "ask"}); err != nil {
				t.Fatal(err)
			}
		}
		pass(3 * time.Second)
		for _, id := range ids {
			if tasks, err := b.Tasks(t.Context(), id); err != nil || tasks[0].State != "succeeded" {
				t.Errorf("three seconds after it was approved, run %d has %+v, %v", id, tasks, err)
			}
		}
	})
}

// A run that waits for a slot times out in time, and its timers go on, although another worker serves its lane and is full too.
func TestShare_TimersOfWhatWaitsForASlotGoOn(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			b, boot, ids := simulated(t, `name: d
timeout: 30m
steps:
  - {id: p, action: wait, with: {duration: 1m}}
  - {id: s, run: 10h, depends: [p]}
  - {id: w, action: wait, with: {duration: 5m}, depends: [p]}
`, 1)
			b.put(t, "name: long\nsteps:\n  - {id: a, run: 10h}\n")
			for i := range workers {
				b.join(t, fmt.Sprint("w", i), 1, boot)
			}
			time.Sleep(15 * time.Second)
			for range workers {
				b.enqueue(t, "long")
			}
			time.Sleep(40 * time.Minute)
			if r, err := b.Get(t.Context(), ids[0]); err != nil || r.State != "failed" || r.FinishedAt.Sub(r.StartedAt) > 30*time.Minute+2*time.Minute {
				t.Errorf("of %d workers: after forty minutes it is %s after %v, %v", workers, r.State, r.FinishedAt.Sub(r.StartedAt), err)
			}
			tasks, err := b.Tasks(t.Context(), ids[0])
			if err != nil || len(tasks) != 3 || tasks[2].State != "succeeded" {
				t.Errorf("of %d workers: the timer did not go on: %+v, %v", workers, tasks, err)
			}
		})
	}
}
