package embed

import (
	"errors"

	"github.com/oarlock-dev/oarlock/worker/exec"
)

// ownDescriptors is the number of descriptors that a worker needs for itself: database connections, guard, health checks, spooled
// logs, and the Go runtime. Connections of postgres.query are not included.
const ownDescriptors = 40

// Shortages returns the limits of this host that are too low for bodies in all slots at once; none if Config.Commands is nil.
// Config.Folder must exist.
func (c Config) Shortages() []exec.Shortage {
	if c.Commands == nil {
		return nil
	}
	return exec.Shortages(orElse(c.Slots, DefaultSlots), ownDescriptors, c.Folder, c.Commands.RunDir)
}

// heedShortages logs the limits in short, and lowers Config.Slots to the slots that they allow. It returns an error if one of them
// is so low that the worker would be of no use.
func (r *Rig) heedShortages(short []exec.Shortage) error {
	for _, s := range short {
		if s.Fatal() {
			return errors.New(s.String())
		}
		r.config.Log.Warn("a limit of this host is too low for the slots of this worker: perhaps tasks do not start on this host", "limit", s.What,
			"has", s.Has, "needs", s.Needs, "hint", s.Hint)
		if s.Slots > 0 && s.Slots < r.config.Slots {
			r.config.Log.Warn("this worker uses fewer slots than it was given, until it is started again", "slots", s.Slots, "given", r.config.Slots, "limit", s.What)
			r.config.Slots = s.Slots
		}
	}
	return nil
}
