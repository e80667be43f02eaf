package worker

import "github.com/oarlock-dev/oarlock/queue"

// attend does what is due on the agenda when a look says that something is, or a run of a schedule has ended here.
func (l *life) attend() {
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.lookout.attend:
		}
		for more := true; more; {
			done, err := l.session.Attend(l.ctx)
			if l.ctx.Err() != nil {
				return
			}
			l.lookout.unattended.Tell(l.log, err, "could not attend to what is due", "what is due is attended to again")
			for i := range done.Decisions {
				l.tellDecision(&done.Decisions[i])
			}
			more = done.More && err == nil
		}
	}
}

// tellDecision logs what somebody may have to look at. What fired, or was skipped as its schedule says, is in the database.
func (l *life) tellDecision(d *queue.Decision) {
	log := l.log.With("dag", d.DAG, "schedule", d.Schedule, "reason", d.Message)
	switch d.Outcome {
	case "dropped":
		log.Warn("fire times were dropped", "times", d.Times)
	case "refused":
		log.Error("a fire time was refused")
	case "paused":
		log.Warn("the schedule is paused")
	case "ended":
		log.Info("the backfill is over")
	case "failed":
		l.log.Error("an item of the agenda could not be attended to", "kind", d.Kind, "id", d.Schedule, "err", d.Message)
	}
}
