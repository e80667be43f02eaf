package dagrun

import "slices"

// handler returns the node of a handler, or nil if the spec has no handler of the kind.
func (r *Run) handler(kind int) *node {
	if i := r.graph.handlers[kind]; i >= 0 {
		return &r.nodes[i]
	}
	return nil
}

func (n *node) isOpen() bool { return n != nil && n.class == classOpen }

// begun reports whether a handler has begun in this generation.
func (n *node) begun() bool { return n != nil && n.main.known }

// pass gives the turn from init to the steps, and from the steps to the other handlers. It reports whether anything changed.
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

// afterInit cancels the steps if init failed or was canceled, and lets them start if init succeeded or was skipped. It
// reports whether anything changed.
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

// next returns the handler that has the turn. It returns nil while the steps have the turn, and when everything has settled.
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

// outcomeHandler returns the handler for the outcome of the run, or nil if that handler has ended. A handler that has begun
// keeps the turn until it ends. After a cancel of the run, abort may follow it.
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

// canceled reports whether a user cancelled the run.
func (r *Run) canceled() bool { return r.rec.Ending == EndingCancel || r.rec.Ending == EndingNow }

// endHandlers stops handlers when the run is cancelled or refused. Other endings do not affect handlers.
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

// endHandler cancels a handler that has begun. If toCome is set, it also cancels one that has not begun.
func (r *Run) endHandler(kind int, toCome bool) {
	if n := r.handler(kind); n != nil && (toCome || n.begun()) {
		n.tasks(func(t *task) { r.stop(t, r.rec.EndingBy, r.endingReason(), r.rec.Ending == EndingNow) })
	}
}

// leftOut reports whether a handler has a row that still waits for its turn, because it ran in an earlier generation or was
// about to run.
func (t *task) leftOut() bool { return t.State <= TaskReady && (t.stored || t.Seq > 0) }

// leaveOut ends, together with the run, the rows of handlers that got no turn in this generation. It adds those rows to the
// records and leaves the tasks unchanged: like the verdict the rows are a proposal until Advance, since a cancel may still
// give one of the handlers its turn.
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

// leftOutCount returns the number of rows that leaveOut ends.
func (r *Run) leftOutCount() (n int) {
	for i := r.graph.plain; i < len(r.nodes); i++ {
		if r.nodes[i].main.leftOut() {
			n++
		}
	}
	return n
}
