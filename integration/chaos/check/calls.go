package check

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// Answer is the outcome of a call.
type Answer string

// Answers. Unknown means "maybe applied"; every call that failed has this answer.
const (
	Done    Answer = "done"    // a run was made or found; a cancel was accepted
	Refused Answer = "refused" // the cancel came too late
	Unknown Answer = "unknown"
)

// Call is a call that a client made, with its answer.
type Call struct {
	Client     int
	From, To   time.Duration
	Object     string // the key or the run that the call is about
	Verb       string // ask, audit; cancel, look
	Answer     Answer
	Run        int64  // answer for a key
	State      string // answer for a run
	Generation int
	Count      int // answer of an audit: number of runs with the key
}

const never = 24 * time.Hour

// AtTheEnd is a time after all calls, and after the last moment at which one of them may still be applied.
const AtTheEnd = never + time.Hour

// Calls returns the objects with calls that cannot have happened in any order that their times allow (A1, A2, A3).
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

// keys models one key. Its state is 0 while the key is free, -1 while a run that no client knows holds it, else the run.
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

// standing is the state of a run. ended is its final state, "" before.
type standing struct {
	canceling bool
	ended     string
}

// runs models one run: an accepted cancel wins, a refused cancel came after the end, and the final state does not change.
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
