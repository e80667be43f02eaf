package dagrun

import "slices"

// handler is the node of a handler, nil when the spec has none of the kind.
func (r *Run) handler(kind int) *node {
	if i := r.graph.handlers[kind]; i >= 0 {
		return &r.nodes[i]
	}
	return nil
}

func (n *node) isOpen() bool { return n != nil && n.class == classOpen }

// begun says whether anything of a handler is on record in this generation.
func (n *node) begun() bool { return n != nil && n.main.known }

// pass hands the turn from init to the steps, from them to the handlers, and says whether that changed anything.
func (r *Run) pass() bool {
	if r.rec.Ending == EndingRefused {
		return false
	}
	if init := r.handler(handlerInit); init != nil && r.open > 0 && r.afterInit(init) {
		return true
	}
	next := r.next()
	if next == r.turn {
		return false
	}
	if r.turn.isOpen() {
		r.turn.members(r.unready)
	}
	r.turn = next
	if next != nil {
		next.members(func(t *task) {
			if t.State <= TaskReady {
				r.enqueue(t)
			}
		})
	}
	return true
}

// afterInit ends the steps when init did not do its job, and lets them start when it did.
func (r *Run) afterInit(init *node) bool {
	switch init.class {
	case classF:
		if r.rec.Ending == EndingNone {
			r.endRun(EndingInit, "", "")
			return true
		}
	case classC:
		open := r.open
		r.cancelSteps("init canceled")
		return r.open < open
	case classS, classK:
		if r.turn == init {
			r.turn = nil
			r.release()
			return true
		}
	}
	return false
}

func (r *Run) cancelSteps(reason string) {
	for i := range r.graph.plain {
		r.nodes[i].tasks(func(t *task) { r.stop(t, "", reason, false) })
	}
}

// next is the handler whose turn it is: nil while the steps have theirs, and when all is over.
func (r *Run) next() *node {
	if init := r.handler(handlerInit); init.isOpen() {
		return init
	}
	if r.open > 0 {
		return nil
	}
	if outcome := r.outcomeHandler(); outcome.isOpen() {
		return outcome
	}
	if exit := r.handler(handlerExit); exit.isOpen() {
		return exit
	}
	return nil
}

// outcomeHandler is the handler of how the run ended, nil if that is past. One that has begun stays the one, but for a
// cancel: then it ends, and abort follows.
func (r *Run) outcomeHandler() *node {
	success, failure, abort := r.handler(handlerSuccess), r.handler(handlerFailure), r.handler(handlerAbort)
	for _, n := range []*node{success, failure, abort} {
		if n.begun() && n.isOpen() {
			return n
		}
	}
	switch {
	case r.handler(handlerExit).begun() || abort.begun():
		return nil
	case r.canceled():
		return abort
	case success.begun() || failure.begun():
		return nil
	}
	switch r.outcome() {
	case RunCanceled:
		return abort
	case RunFailed:
		return failure
	default:
		return success
	}
}

// canceled says whether somebody cancelled the run.
func (r *Run) canceled() bool { return r.rec.Ending == EndingCancel || r.rec.Ending == EndingNow }

// endHandlers stops handlers when the run is cancelled or refused; other endings leave them alone.
func (r *Run) endHandlers() {
	switch r.rec.Ending {
	case EndingCancel, EndingNow:
		now := r.rec.Ending == EndingNow
		exiting := r.handler(handlerExit).begun()
		r.endHandler(handlerInit, true)
		r.endHandler(handlerSuccess, false)
		r.endHandler(handlerFailure, false)
		if now {
			r.endHandler(handlerAbort, !exiting)
			r.endHandler(handlerExit, true)
		}
	case EndingRefused:
		r.turn = nil
		for kind := range handlerKinds {
			switch n := r.handler(kind); {
			case n.begun():
				n.tasks(func(t *task) { r.drop(t, r.rec.EndingText) })
			case n != nil:
				r.unready(n.main)
			}
		}
	}
}

// endHandler stops a handler that has begun; of the others those that were still to come end canceled.
func (r *Run) endHandler(kind int, toCome bool) {
	if n := r.handler(kind); n != nil && (toCome || n.begun()) {
		n.tasks(func(t *task) { r.stop(t, r.rec.EndingBy, r.endingReason(), r.rec.Ending == EndingNow) })
	}
}

// leftOut says whether a handler has a row that waits for a turn: it ran in an earlier generation, or was about to run.
func (t *task) leftOut() bool { return t.State <= TaskReady && (t.stored || t.Seq > 0) }

// leaveOut ends, with the run, the rows of handlers that had no turn in this generation. Like the verdict that is a proposal:
// a cancel that comes before Advance may give one of them its turn. So the tasks themselves stay as they are.
func (r *Run) leaveOut(rows []TaskRecord) []TaskRecord {
	if r.verdict == nil {
		return rows
	}
	seq := r.seq
	for i := r.graph.plain; i < len(r.nodes); i++ {
		t := r.nodes[i].main
		if !t.leftOut() {
			continue
		}
		seq++
		row := t.TaskRecord
		row.Seq, row.State, row.Generation = seq, TaskSkipped, r.rec.Generation
		row.Reason, row.FinishedAt = "the run "+r.verdict.State.String(), r.now
		rows = slices.DeleteFunc(rows, func(old TaskRecord) bool { return old.ID == row.ID })
		rows = append(rows, row)
	}
	return rows
}

// leftOutCount is how many rows leaveOut ends.
func (r *Run) leftOutCount() (n int) {
	for i := r.graph.plain; i < len(r.nodes); i++ {
		if r.nodes[i].main.leftOut() {
			n++
		}
	}
	return n
}
