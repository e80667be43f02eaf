package dagrun

import "slices"

// handler returns the node of a handler, or nil if the spec has no handler of the kind.
func (r *Run) handler(kind int) *node {
	if i := r.graph.handlers[kind]; i >= 0 {
		return &r.nodes[i]
	}
	return nil
}

// isOpen reports whether a handler is there and has not settled. n may be nil.
func (n *node) isOpen() bool { return n != nil && n.class == classOpen }

// begun reports whether a handler has begun or ended in this generation. n may be nil: the spec has no such handler.
func (n *node) begun() bool { return n != nil && n.main.known }

// pass gives the turn from init to the steps, and from the steps to the other handlers one by one. It has the tasks of the next
// handler judged. If init failed or was canceled, it ends the steps. It reports whether anything changed; the caller repeats it
// until nothing does.
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

// afterInit ends the run if init failed, cancels the steps if init was canceled, and lets the steps start if init succeeded or was
// skipped. While init is open it does nothing. It reports whether anything changed.
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

// next returns the handler that must have the turn now. It returns nil while the steps have the turn, and when everything has
// settled.
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

// outcomeHandler returns the handler for the outcome of the run: success, failure or abort. It returns nil if the spec has no such
// handler, or if the handler has ended or must not begin any more. A handler that has begun is the result until it ends. After a
// cancel of the run, abort may follow it.
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

// canceled reports whether a user has canceled the whole run, with or without handlers.
func (r *Run) canceled() bool { return r.rec.Ending == EndingCancel || r.rec.Ending == EndingNow }

// endHandlers stops the handlers that must not run on, because the run has an ending. A cancel, of either kind, stops init, and it
// stops success or failure if that handler has begun. A cancel without handlers (EndingNow) also stops abort and exit, even if they
// have not begun. If exit has begun and abort has not, endHandlers leaves abort as it is, because abort cannot begin any more. A
// refusal cancels every handler that has begun, without waiting for its body, and lets no other begin. Other endings change no
// handler.
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

// endHandler cancels a handler of a kind that has begun, after its body has been stopped. If toCome is set, it also cancels one
// that has not begun. It does nothing if the spec has no such handler.
func (r *Run) endHandler(kind int, toCome bool) {
	if n := r.handler(kind); n != nil && (toCome || n.begun()) {
		n.tasks(func(t *task) { r.stop(t, r.rec.EndingBy, r.endingReason(), r.rec.Ending == EndingNow) })
	}
}

// leftOut reports whether a handler has a stored row, or one to be stored, although it is pending or ready: it ran in an earlier
// generation or was about to run.
func (t *task) leftOut() bool { return t.State <= TaskReady && (t.stored || t.Seq > 0) }

// leaveOut adds to rows the rows of the handlers that leftOut reports, ended as skipped, if the run ends with this commit. Each
// replaces an older row of its task in rows, which may be changed in place. The tasks themselves stay as they are: like the verdict
// the rows are a proposal until Advance, since a cancel may still give one of the handlers its turn.
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

// leftOutCount returns the number of handlers that leftOut reports. If the run ends, leaveOut ends their rows.
func (r *Run) leftOutCount() (n int) {
	for i := r.graph.plain; i < len(r.nodes); i++ {
		if r.nodes[i].main.leftOut() {
			n++
		}
	}
	return n
}
