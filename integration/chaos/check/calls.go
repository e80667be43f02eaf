package check

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// Answer is what a call came to.
type Answer string

// Answers. Unknown is "maybe applied", and so is every call that failed.
const (
	Done    Answer = "done"    // a run, made or found; a cancel that was accepted
	Refused Answer = "refused" // a cancel that came too late
	Unknown Answer = "unknown"
)

// Call is one that a client made, and what it was told.
type Call struct {
	Client     int
	From, To   time.Duration
	Object     string // what it is about: a key, or a run
	Verb       string // ask, audit; cancel, look
	Answer     Answer
	Run        int64  // of a key
	State      string // of a run
	Generation int
	Count      int // of an audit: runs that have the key
}

const never = 24 * time.Hour

// AtTheEnd is after all calls, and after whatever of them may still land.
const AtTheEnd = never + time.Hour

// Calls finds the objects whose calls cannot have happened in any order that their times allow (A1, A2, A3).
func Calls(calls []Call, patience time.Duration) (broken []Violation) {
	of := map[string][]porcupine.Operation{}
	for _, c := range calls {
		to := c.To
		if c.Answer == Unknown {
			to = never
		}
		of[c.Object] = append(of[c.Object], porcupine.Operation{ClientId: c.Client, Input: c, Output: c, Call: int64(c.From), Return: int64(to)})
	}
	for object, history := range of {
		model, rule := runs, "A2"
		if first := history[0].Input.(Call); first.Verb == "ask" || first.Verb == "audit" { //nolint:forcetypeassert // made above
			model, rule = keys, "A1"
		}
		switch porcupine.CheckOperationsTimeout(model.ToModel(), history, patience) {
		case porcupine.Illegal:
			broken = append(broken, Violation{rule, 0, fmt.Sprintf("%s: these calls cannot have happened: %+v", object, callsOf(history))})
		case porcupine.Unknown:
			broken = append(broken, Violation{rule, 0, fmt.Sprintf("%s: whether these calls can have happened was not found out in %v", object, patience)})
		case porcupine.Ok:
		}
	}
	return broken
}

func callsOf(history []porcupine.Operation) (all []Call) {
	for _, op := range history {
		all = append(all, op.Input.(Call)) //nolint:forcetypeassert // made by Calls
	}
	return all
}

// keys is how one key is meant to work: 0 is free, -1 held by a run that nobody was told of, else the run.
var keys = porcupine.NondeterministicModel{
	Init: func() []any { return []any{int64(0)} },
	Step: func(state, input, _ any) []any {
		held, c := state.(int64), input.(Call) //nolint:forcetypeassert // what Init and Calls made
		switch {
		case c.Verb == "audit":
			return when(c.Count == 0 && held == 0 || c.Count == 1 && (held == c.Run || held == -1), held)
		case c.Answer == Done:
			return when(held == 0 || held == -1 || held == c.Run, c.Run)
		case held == 0:
			return []any{int64(0), int64(-1)}
		}
		return []any{held}
	},
}

// standing is what a run may be: Ended is its final state, "" before.
type standing struct {
	canceling bool
	ended     string
}

// runs is how one run is meant to answer: a cancel that was accepted wins, one that was refused came after the end, and what
// has ended stays as it is.
var runs = porcupine.NondeterministicModel{
	Init: func() []any { return []any{standing{}} },
	Step: func(state, input, _ any) []any {
		run, c := state.(standing), input.(Call) //nolint:forcetypeassert // what Init and Calls made
		switch {
		case c.Verb == "cancel" && c.Answer == Done:
			return when(run.ended == "", standing{canceling: true})
		case c.Verb == "cancel" && c.Answer == Refused:
			return when((run.ended == "" || run.ended == c.State) && (!run.canceling || c.State == "canceled"), standing{run.canceling, c.State})
		case c.Verb == "cancel" && run.ended == "":
			return []any{run, standing{canceling: true}}
		case c.Verb == "cancel":
			return []any{run}
		case c.Answer == Unknown:
			return []any{run}
		case !terminal[c.State]:
			return when(run.ended == "", run)
		}
		return when((run.ended == "" || run.ended == c.State) && (!run.canceling || c.State == "canceled"), standing{run.canceling, c.State})
	},
}

func when(ok bool, state any) []any {
	if ok {
		return []any{state}
	}
	return nil
}
