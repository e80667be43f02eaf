package dagrun

// class is how a task or a group counts for what depends on it. The letters are those of the language reference.
type class uint8

const (
	classOpen class = iota // not settled
	classS                 // succeeded, or tolerated
	classF                 // failed or upstream_failed
	classK                 // skipped
	classC                 // canceled
	classes
)

// classOf is the class of a task by itself. A replaced task has none: its replacements decide.
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

// tally counts classes.
type tally [classes]int32

// answer is what a trigger rule says.
type answer uint8

const (
	undecided answer = iota
	yes
	no
)

// judge applies a rule to what the parents contribute, in whatever order they did.
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

// early says whether one parent has shown enough, whatever the others will do.
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

// holds applies a rule that is not early once every parent has settled.
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

// hopeless says whether one failed parent is enough for a rule never to hold.
func (rule Rule) hopeless() bool {
	return rule == AllSuccess || rule == NoneFailed || rule == NoneFailedMinOneSuccess
}
