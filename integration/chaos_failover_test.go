package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/chaos/check"
	"github.com/oarlock-dev/oarlock/integration/kit/pgcluster"
	"github.com/oarlock-dev/oarlock/queue"
	statements "github.com/oarlock-dev/oarlock/sql"
)

// loss is the time from which acknowledged commits may be lost, because the promoted standby had not received them.
// Before began the standby had all commits; after ended it is the primary itself. Both may be read once over is closed.
// If nothing can be lost, over is closed from the start, and both are zero.
type loss struct {
	began, ended time.Time
	over         chan struct{}
}

// touches reports whether a call that was sent and answered at these times may be lost.
func (l *loss) touches(asked, answered time.Time) bool {
	return answered.After(l.began) && asked.Before(l.ended)
}

// addStandby adds a standby to the server.
func (a *chaosBundle) addStandby(t *testing.T) {
	t.Helper()
	primary := a.nodes[0]
	standby := primary.Standby(a.lane.t) // it outlives the seed and is the lane's server from now on
	want := ""
	if a.scene == syncScene {
		want = "sync"
		if err := set(t.Context(), primary, "synchronous_standby_names", "*"); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the standby follows", func() bool {
		follows, err := one[bool](t.Context(), primary.URL(), "streaming", want)
		return err == nil && follows
	})
	a.nodes = append(a.nodes, standby)
	t.Cleanup(func() {
		_ = script(context.WithoutCancel(t.Context()), a.node().URL(), "unset", "name", "synchronous_standby_names")
		_ = script(context.WithoutCancel(t.Context()), a.node().URL(), "reload")
		a.lane.node = a.node()
	})
}

// failOver loses the primary for good.
func (a *chaosBundle) failOver(r *rand.Rand) {
	defer a.storm()()
	primary, standby := a.nodes[0], a.nodes[1]
	if a.scene == asyncScene {
		a.lost.began = time.Now()
		a.catchUp(primary, standby)
		standby.Cut(a.t)
		pause(a.ctx, between(r, 0, chaosTTL*2/3)) // commits from now on will be lost
	}
	primary.Crash(a.t)
	standby.Promote(a.t)
	a.takes = 1
	if a.scene == asyncScene {
		a.lost.ended = time.Now()
		close(a.lost.over)
	}
	a.did(string(a.scene))
}

// catchUp waits until a standby has everything that the primary has acknowledged so far.
func (a *chaosBundle) catchUp(primary, standby *pgcluster.Node) {
	var position string
	until(a.t, "the primary says how far it is", func() (ok bool) {
		var err error
		position, err = answer[string](a.ctx, primary.URL(), statements.Named("pgcluster/position"))
		return err == nil
	})
	until(a.t, "the standby is as far", func() bool {
		there, err := answer[bool](a.ctx, standby.URL(), statements.Named("pgcluster/replayed"), position)
		return err == nil && there
	})
}

// survived waits until no more commits can be lost, and reports whether an acknowledged control is still there. A control
// that is gone and must not be is a breach.
func (a *chaosBundle) survived(c *queue.Control, asked, answered time.Time) bool {
	select {
	case <-a.lost.over:
	case <-a.ctx.Done():
		return true // the seed is over, and no client can ask
	}
	var kept []queue.Control
	for a.ctx.Err() == nil {
		var err error
		if kept, err = a.Controls(a.ctx, c.Run); err == nil {
			break
		}
		pause(a.ctx, 100*time.Millisecond)
	}
	if a.ctx.Err() != nil || slices.ContainsFunc(kept, func(k queue.Control) bool { return k.ID == c.ID && k.Verb == c.Verb }) {
		return true
	}
	if !a.lost.touches(asked, answered) {
		a.say("A4: %s of run %d, control %d, was acknowledged and is not there", c.Verb, c.Run, c.ID)
	}
	return false
}

// certain returns the calls that are certain, and weakens the others. The answer to a call that may be lost becomes
// "maybe", and a look at such a time is dropped. If the acceptance of a run may be lost, all calls about the run are
// dropped, since another run may get its number.
func (a *chaosBundle) certain(calls []check.Call) (all []check.Call) {
	doubtful := map[string]bool{}
	for run, at := range a.asked.accepted {
		doubtful[fmt.Sprint("run ", run)] = a.lost.touches(at, at)
	}
	for _, c := range calls {
		switch touched := a.lost.touches(a.asked.start.Add(c.From), a.asked.start.Add(c.To)); {
		case doubtful[c.Object], touched && c.Verb == "look":
			continue
		case touched:
			c.Answer = check.Unknown
		}
		all = append(all, c)
	}
	return all
}
