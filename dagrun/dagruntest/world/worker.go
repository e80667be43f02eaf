package world

import (
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// worker plays a guard and its driver process.
type worker struct {
	world       *World
	id          int
	slots       int
	renewed     dagrun.Time // when the last good renewal was sent
	frozenUntil dagrun.Time
	cutUntil    dagrun.Time
	draining    bool
	dead        bool // its guard killed everything; when it wakes up it starts again under a new id
	drivers     []*driver
}

func (k *worker) frozen() bool { return k.world.now < k.frozenUntil }
func (k *worker) cut() bool    { return k.world.now < k.cutUntil }

// guard kills everything that still runs when the lease is about to end. It is never frozen.
func (k *worker) guard() {
	if k.world.now-k.renewed < dagrun.Time(guardAfter) || k.dead {
		return
	}
	for _, d := range k.drivers {
		d.killBodies()
	}
	k.dead = k.frozen()
}

// act lets the worker do one thing.
func (k *worker) act() {
	if k.frozen() {
		return
	}
	if k.frozenUntil != 0 {
		k.frozenUntil = 0
		k.world.Counts.Woken++
	}
	if k.dead {
		for _, d := range k.drivers {
			d.lastGasp()
		}
		k.world.remove(k)
		return
	}
	if k.world.now-k.renewed >= dagrun.Time(fenceAfter) {
		k.forgetAll()
	}
	if !k.cut() {
		k.talk()
	}
	if len(k.drivers) > 0 {
		k.drivers[k.world.rng.IntN(len(k.drivers))].act()
		k.drivers = slices.DeleteFunc(k.drivers, func(d *driver) bool { return d.gone })
	}
	if k.draining && len(k.drivers) == 0 {
		k.world.store.lose(k.id)
		k.world.remove(k)
	}
}

// talk is the worker's own business with the database: renew, look after others, claim.
func (k *worker) talk() {
	s := k.world.store
	if b := s.beats[k.id]; b.fenced && k.world.now-k.renewed >= dagrun.Time(beatEvery) {
		b.at, k.renewed = k.world.now, k.world.now
		s.releaseUnknown(k)
	}
	if !s.beats[k.id].fenced {
		k.world.remove(k) // it reads that it is lost
		return
	}
	s.reap()
	if len(k.drivers) < 2 && !k.draining {
		if r := s.claimOne(k.id); r != nil {
			k.drivers = append(k.drivers, newDriver(k, r))
		}
	}
}

// drives says whether the worker knows that it has a run.
func (k *worker) drives(r *row) bool {
	return slices.ContainsFunc(k.drivers, func(d *driver) bool { return d.row == r && d.claim == r.claim })
}

// forgetAll kills every body and drops every run.
func (k *worker) forgetAll() {
	for _, d := range k.drivers {
		d.forget()
	}
	k.drivers = nil
}

func (k *worker) drain() {
	if k.draining {
		return
	}
	k.world.Counts.Drains++
	k.world.log("worker %d drains", k.id)
	k.draining = true
	for _, d := range k.drivers {
		d.inbox = append(d.inbox, dagrun.Event{Kind: dagrun.EvDrain})
	}
}

func (k *worker) busy() int {
	n := 0
	for _, d := range k.drivers {
		n += len(d.bodies)
	}
	return n
}
