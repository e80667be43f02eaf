package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// Rules for the schedule of a history. The schedule has fire times until the storm ends.
//
//	F1 each time is decided once, in order, and has one run at most, under a number that no other has
//	F2 a time fires only where fewer runs of the schedule than its policy allows are unfinished
//	F3 a time that nothing holds back stays undecided for less than undecidedMost while the looks of a worker get through
//	S6 at the end all times are decided
const (
	pulseName     = "pulse"
	pulseEvery    = 7 * time.Second
	undecidedMost = callLimit + 2*time.Second // a call may hang that long, and then the next look asks again
)

// pulse is the schedule of a history.
type pulse struct {
	dag, policy string
	atOnce      int       // 0: no limit
	next        time.Time // the first fire time that is not decided
	until       time.Time
	fires       int // fire times decided
	runs        []queue.RunID
	canceled    map[int64]bool // controls of the schedule that were seen
	undecided   time.Duration  // how long the next fire time could have been decided
}

// newPulse draws the schedule of a DAG. scheduled is the DAG's file with it.
func newPulse(r *rand.Rand, dag, source string, began, until time.Time) (p pulse, scheduled string) {
	p = pulse{dag: dag, policy: "allow", until: until, canceled: map[int64]bool{}}
	settings := ""
	if policy := r.IntN(5); policy > 0 {
		p.policy, p.atOnce = []string{"skip", "all", "latest", "cancel"}[policy-1], 1+r.IntN(2)
		settings = fmt.Sprintf(", at_once: %d", p.atOnce)
	}
	seconds := int64(pulseEvery / time.Second)
	p.next = time.Unix((began.Unix()/seconds+1)*seconds, 0)
	head := fmt.Sprintf("name: %s\n", dag)
	scheduled = head + fmt.Sprintf("schedule: {name: %s, every: %s, end: %s, overlap_policy: %s%s}\n",
		pulseName, pulseEvery, until.UTC().Format(time.RFC3339), p.policy, settings) + strings.TrimPrefix(source, head)
	return p, scheduled
}

// attended notes what a call of Attend decided.
func (a *audit) attended() {
	p, fired := &a.pulse, 0
	for _, f := range a.memory.Fires(p.dag, pulseName)[p.fires:] {
		a.say("%s is %s for %v, run %d", pulseName, f.Outcome, f.At.Sub(a.began), f.Run)
		if !f.At.Equal(p.next) {
			a.breaks("F1: the time %v is decided where %v was to be", f.At.Sub(a.began), p.next.Sub(a.began))
		}
		p.fires++
		p.next, p.undecided = p.next.Add(pulseEvery), 0
		if f.Outcome != "fired" {
			a.count(func(c *Counts) { c.Unfired++ })
			continue
		}
		fired++
		if a.runs[f.Run] != nil {
			a.breaks("F1: run %d is made a second time, for %v", f.Run, f.At.Sub(a.began))
		}
		p.runs = append(p.runs, f.Run)
		a.row(f.Run)
		a.count(func(c *Counts) { c.Fired++ })
	}
	if n := a.unfinished(); fired > 0 && p.atOnce > 0 && n > p.atOnce {
		a.breaks("F2: %d runs of %s are unfinished under %s, which allows %d", n, pulseName, p.policy, p.atOnce)
	}
	a.cancels()
}

// cancels notes the cancels that the schedule made of its own runs.
func (a *audit) cancels() {
	for _, id := range a.pulse.runs {
		controls, err := a.memory.Controls(context.Background(), id)
		if err != nil {
			panic(err)
		}
		for i := range controls {
			if c := &controls[i]; c.By == "schedule "+pulseName && !a.pulse.canceled[c.ID] {
				a.pulse.canceled[c.ID] = true
				a.count(func(c *Counts) { c.Superseded++ })
				a.asked(c)
			}
		}
	}
}

// unfinished counts the runs of the schedule that are not over.
func (a *audit) unfinished() (n int) {
	for _, id := range a.pulse.runs {
		if r, err := a.memory.Get(context.Background(), id); err != nil || !r.Over() {
			n++
		}
	}
	return n
}

// lookAtPulse adds the time in which a worker could have decided what is due.
func (a *audit) lookAtPulse(now time.Time) {
	p := &a.pulse
	waits := p.policy == "all" || p.policy == "latest" || p.policy == "cancel"
	if !p.open() || p.next.After(now) || waits && a.unfinished() >= p.atOnce || !a.anyLooks(now) {
		return
	}
	if p.undecided += idleEvery; p.undecided > undecidedMost {
		a.breaks("F3: the time %v is not decided at %v under %s, and a worker looks", p.next.Sub(a.began), now.Sub(a.began), p.policy)
		p.undecided = 0
	}
}

// open reports whether fire times are still to come or to be decided.
func (p *pulse) open() bool { return p.next.Before(p.until) }

// anyLooks reports whether the looks of some worker get through, so that it attends.
func (a *audit) anyLooks(now time.Time) bool {
	for _, id := range a.registrations {
		p := a.owners[id]
		if p.current(id) && now.Sub(a.sharing.looked[p]) <= lookFresh && p.worker.Status().Phase == worker.Live && !p.stands() && !a.sharing.waitsLong(p, now) {
			return true
		}
	}
	return false
}
