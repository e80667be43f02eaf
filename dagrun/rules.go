package dagrun

// class is the result of a task or group as its dependants count it. The letters are from the language reference.
type class uint8

const (
	classOpen class = iota // not settled
	classS                 // succeeded, or tolerated
	classF                 // failed or upstream_failed
	classK                 // skipped
	classC                 // canceled
	classes
)

// classOf returns the class of a task by itself. A replaced task is open: its replacements decide.
func classOf(t *task) class {
	switch t.State {
	case TaskSucceeded:
		return classS
	case TaskFailed:
		if t.Tolerated {
			return classS
		}
		return classF
	case TaskUpstreamFailed:
		return classF
	case TaskSkipped:
		if t.step.ContinueOn.Skipped {
			return classS
		}
		return classK
	case TaskCanceled:
		return classC
	default:
		return classOpen
	}
}

// tally counts parents by class.
type tally [classes]int32

// answer is the result of a trigger rule.
type answer uint8

const (
	undecided answer = iota
	yes
	no
)

// judge applies a rule to the classes of the parents. The order in which the parents settled does not matter.
func (rule Rule) judge(n tally) answer {
	total := n[classOpen] + n[classS] + n[classF] + n[classK] + n[classC]
	if total == 0 || rule.early(n) {
		return yes
	}
	if n[classOpen] > 0 {
		return undecided
	}
	if rule.holds(n, total) {
		return yes
	}
	return no
}

// early reports whether the parents that have settled satisfy a rule, regardless of the others.
func (rule Rule) early(n tally) bool {
	switch rule {
	case OneSuccess:
		return n[classS] > 0
	case OneFailed:
		return n[classF] > 0
	case OneDone:
		return n[classS]+n[classF] > 0
	default:
		return false
	}
}

// holds applies a rule that did not hold early, after every parent has settled.
func (rule Rule) holds(n tally, total int32) bool {
	switch rule {
	case AllSuccess:
		return n[classS] == total
	case AllDone:
		return true
	case AllFailed:
		return n[classF] == total
	case NoneFailed:
		return n[classF]+n[classC] == 0
	case NoneFailedMinOneSuccess:
		return n[classF]+n[classC] == 0 && n[classS] > 0
	case NoneSkipped:
		return n[classK] == 0
	default:
		return false
	}
}

// hopeless reports whether one failed parent means that a rule can never hold.
func (rule Rule) hopeless() bool {
	return rule == AllSuccess || rule == NoneFailed || rule == NoneFailedMinOneSuccess
}
