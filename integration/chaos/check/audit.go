package check

import (
	"fmt"
	"time"
)

// Violation is a breach of a rule.
type Violation struct {
	Rule string // rule of docs/internals/promises.md, such as S1 or W2
	Run  int64
	What string
}

func (v Violation) String() string { return fmt.Sprintf("%s run %d: %s", v.Rule, v.Run, v.What) }

// Change is a change of the row of a run or of one of its tasks. Trails hold changes in the order in which they were
// made.
type Change struct {
	Tx         int64     // changes of one transaction happen at once
	At         time.Time // by the database's clock
	Run        int64
	Task       string // name of the task with its item: s1/a, s2~1; "": the run's own row
	Shell      bool   // the task is a process
	Was, Is    string // states; Was is "" for a new row
	Attempt    int
	WasAttempt int
	Generation int
	ResetBy    int64  // the control that reset the task last, 0: none
	Epoch      int    // of the row
	RunEpoch   int    // of the run at that moment
	Claim      string // of the run at that moment, "": none
	Asked      bool   // the run got a request
	GaveBack   string // the worker that gave the run back for want of a slot; "": none did
}

var terminal = map[string]bool{
	"succeeded": true, "failed": true, "canceled": true, "skipped": true, "upstream_failed": true, "replaced": true,
}

// history is the state of a run at one point of a trail.
type history struct {
	epoch, generation int
	over              bool
	overIn            int64            // transaction that ended it
	ends              map[int64]bool   // transactions that end it, later generations included
	parted            int64            // transaction in which it first was without a claim
	succeeded         map[taskOf]int64 // transaction of each success
	tasks             map[string]Change
}

type taskOf struct {
	name       string
	generation int
	resetBy    int64
}

// Trail returns what must not happen in this order of changes. edges holds the parents of each step, by run. A run that
// is not in edges has no parents to check.
func Trail(changes []Change, edges map[int64]map[string][]string) (broken []Violation) {
	runs, ends := map[int64]*history{}, endsIn(changes)
	claims := map[string]string{}
	for _, c := range changes {
		h := runs[c.Run]
		if h == nil {
			h = &history{ends: ends[c.Run], succeeded: map[taskOf]int64{}, tasks: map[string]Change{}}
			runs[c.Run] = h
		}
		say := func(rule, format string, args ...any) {
			broken = append(broken, Violation{rule, c.Run, fmt.Sprintf(format, args...)})
		}
		if c.Task == "" {
			h.ofRun(c, say)
			checkClaim(c, claims, say)
			continue
		}
		h.ofTask(c, say)
		if c.begins() {
			h.checkEdges(c, edges[c.Run], say)
		}
		h.tasks[c.Task] = c
	}
	return broken
}

// endsIn returns the transactions that end each run. If no worker holds a run, its cancel ends the tasks first.
func endsIn(changes []Change) map[int64]map[int64]bool {
	all := map[int64]map[int64]bool{}
	for _, c := range changes {
		if c.Task != "" || !terminal[c.Is] {
			continue
		}
		if all[c.Run] == nil {
			all[c.Run] = map[int64]bool{}
		}
		all[c.Run][c.Tx] = true
	}
	return all
}

type sayer func(rule, format string, args ...any)

func (h *history) ofRun(c Change, say sayer) {
	if c.Epoch < h.epoch {
		say("S3", "epoch %d after %d", c.Epoch, h.epoch)
	}
	if h.over && c.Generation == h.generation && c.Tx != h.overIn {
		say("S2", "%s became %s after its end", c.Was, c.Is)
	}
	if c.Generation != h.generation && h.generation != 0 && (!h.over || c.Generation != h.generation+1 || c.Is != "queued") {
		say("S2", "generation %d became %d, %s, over: %t", h.generation, c.Generation, c.Is, h.over)
	}
	h.epoch, h.generation = max(h.epoch, c.Epoch), c.Generation
	h.over = terminal[c.Is]
	if h.over {
		h.overIn = c.Tx
	}
	if c.Claim == "" && (c.Is != c.Was || !c.Asked) {
		h.parted = c.Tx
	}
}

// checkClaim reports a claim id that belongs to two drives.
func checkClaim(c Change, claims map[string]string, say sayer) {
	if c.Claim == "" {
		return
	}
	drive := fmt.Sprintf("run %d in epoch %d", c.Run, c.Epoch)
	if before, ok := claims[c.Claim]; ok && before != drive {
		say("S3", "claim %s is of %s and of %s", c.Claim, before, drive)
	}
	claims[c.Claim] = drive
}

func (h *history) ofTask(c Change, say sayer) {
	before := h.tasks[c.Task]
	switch {
	case h.over && c.Tx != h.overIn:
		say("S2", "%s became %s after the end of the run", c.Task, c.Is)
	case c.Epoch != c.RunEpoch:
		say("S7", "%s became %s, written in epoch %d while the run is in epoch %d", c.Task, c.Is, c.Epoch, c.RunEpoch)
	case c.Claim == "" && !h.ends[c.Tx] && c.Tx != h.parted:
		say("S7", "%s became %s while nobody held the run", c.Task, c.Is)
	}
	switch same := before.Generation == c.Generation && before.ResetBy == c.ResetBy; {
	case same && terminal[before.Is] && c.Is != before.Is:
		say("S1", "%s was %s and became %s in the same generation", c.Task, before.Is, c.Is)
	case same && terminal[c.Is] && c.Is == c.Was:
		say("S1", "%s was %s, and written again in the same generation", c.Task, c.Is)
	}
	if c.Is == "succeeded" && c.Was != "succeeded" {
		key := taskOf{c.Task, c.Generation, c.ResetBy}
		if _, twice := h.succeeded[key]; twice {
			say("S1", "%s succeeded twice in generation %d", c.Task, c.Generation)
		}
		h.succeeded[key] = c.Tx
	}
	if c.Attempt < c.WasAttempt || c.Attempt > c.WasAttempt+1 {
		say("S8", "attempt %d of %s follows attempt %d", c.Attempt, c.Task, c.WasAttempt)
	}
	if c.Attempt > 0 && c.Was == "running" && c.Is == "running" && c.Attempt == c.WasAttempt && c.Epoch != before.Epoch && before.Epoch != 0 {
		say("S8", "attempt %d of %s runs in epoch %d as in epoch %d", c.Attempt, c.Task, before.Epoch, c.Epoch)
	}
}

// begins reports whether a task starts, or ends without ever having run.
func (c *Change) begins() bool {
	switch c.Is {
	case "pending", "ready", "canceled", "upstream_failed":
		return false
	}
	return c.Was == "" || c.Was == "pending" || c.Was == "ready" || c.Is == "running" && c.Was != "running"
}

// checkEdges reports a task that starts before all its parents are settled.
func (h *history) checkEdges(c Change, edges map[string][]string, say sayer) {
	for _, parent := range edges[StepOf(c.Task)] {
		if p := h.tasks[parent]; !terminal[p.Is] {
			say("S5", "%s started while %s was %q", c.Task, parent, p.Is)
		}
	}
}

// StepOf returns the step of a task: s1 for s1/a and for s1~2.
func StepOf(task string) string {
	for i, r := range task {
		if r == '/' || r == '~' {
			return task[:i]
		}
	}
	return task
}

// Limits reports runs of a kind that are claimed beyond the limit of that kind (C1). kinds holds the kinds of each run,
// most the limit of each kind. A worker that claims because another run was given back has seen that commit, so the trail
// has the release first.
func Limits(changes []Change, kinds map[int64][]string, most map[string]int) (broken []Violation) {
	claimed, told := map[string]map[int64]bool{}, map[string]bool{}
	for i, c := range changes {
		for _, kind := range kinds[c.Run] {
			if claimed[kind] == nil {
				claimed[kind] = map[int64]bool{}
			}
			if c.Task == "" && c.Claim != "" {
				claimed[kind][c.Run] = true
			} else if c.Task == "" {
				delete(claimed[kind], c.Run)
			}
		}
		if i+1 < len(changes) && changes[i+1].Tx == c.Tx {
			continue // the rest of the transaction follows
		}
		for kind, limit := range most {
			if n := len(claimed[kind]); n > limit && !told[kind] {
				told[kind] = true
				broken = append(broken, Violation{"C1", c.Run, fmt.Sprintf("%s has %d runs at once, at most %d", kind, n, limit)})
			}
		}
	}
	return broken
}
