package storetest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"

	"github.com/oarlock-dev/oarlock/queue"
)

// ErrInjected is what a call failed by, where it is not queue.ErrUnknown.
var ErrInjected = errors.New("injected fault: the connection broke")

// maxHeld bounds the calls that wait at once.
const maxHeld = 1024

// Fault is what happens to a call.
type Fault uint8

// Faults.
const (
	Pass          Fault = iota // nothing
	FailBefore                 // ErrInjected, and nothing was applied
	FailAfter                  // ErrInjected, though it was applied: the reply is lost
	UnknownBefore              // queue.ErrUnknown, and nothing was applied
	UnknownAfter               // queue.ErrUnknown, though it was applied
	Twice                      // applied twice; the second answer counts
	Hold                       // waits until somebody frees it, see Faults.Held
	faults
)

func (f Fault) String() string {
	return [...]string{"pass", "fail before", "fail after", "unknown before", "unknown after", "twice", "hold"}[f]
}

// Op is a method of a role.
type Op string

// Operations that can have faults.
const (
	OpPutDAG       Op = "PutDAG"
	OpEnqueue      Op = "Enqueue"
	OpControl      Op = "Control"
	OpGet          Op = "Get"
	OpTasks        Op = "Tasks"
	OpResult       Op = "Result"
	OpPoll         Op = "Poll"
	OpLook         Op = "Look"
	OpSweep        Op = "Sweep"
	OpAttend       Op = "Attend"
	OpLoad         Op = "Load"
	OpReadMail     Op = "ReadMail"
	OpDefinition   Op = "Definition"
	OpHear         Op = "Hear"
	OpCached       Op = "Cached"
	OpCommit       Op = "Commit"
	OpRelease      Op = "Release"
	OpCondemn      Op = "Condemn"
	OpEnqueueChild Op = "EnqueueChild"
	OpRenew        Op = "Renew"
	OpDrain        Op = "Drain"
	OpClose        Op = "Close"
	OpAppendLogs   Op = "AppendLogs"
)

// Call is one call: the Nth of its operation, from 1 on.
type Call struct {
	Op Op
	N  int
}

func (c Call) String() string { return fmt.Sprintf("%s %d", c.Op, c.N) }

// Plan says what happens to which call. It may be asked by several goroutines at once.
type Plan func(Call) Fault

// Script is a plan for single calls; all others pass.
func Script(faults map[Call]Fault) Plan {
	return func(c Call) Fault { return faults[c] }
}

// Odds are the odds of faults, in thousandths of all calls.
type Odds map[Fault]int

// Seeded is a plan that has a seed decide. What happens to a call does not depend on the calls of other operations.
func Seeded(seed uint64, odds map[Op]Odds) Plan {
	return func(c Call) Fault {
		h := fnv.New64a()
		fmt.Fprint(h, seed, c.Op, c.N)
		x := h.Sum64() // its low bits are too alike for short inputs
		draw := int((x ^ x>>29) * 0xbf58476d1ce4e5b9 >> 32 % 1000)
		for f := FailBefore; f < faults; f++ {
			if draw -= odds[c.Op][f]; draw < 0 {
				return f
			}
		}
		return Pass
	}
}

// Faults has calls go wrong as a plan says.
type Faults struct {
	plan Plan
	mu   sync.Mutex
	n    map[Op]int
	held chan *Held
}

// NewFaults takes a plan.
func NewFaults(p Plan) *Faults {
	return &Faults{plan: p, n: map[Op]int{}, held: make(chan *Held, maxHeld)}
}

// Held is a call that waits.
type Held struct {
	Call Call
	free chan Fault
}

// Free lets the call go on, to what else is to happen to it. It is called once.
func (h *Held) Free(f Fault) { h.free <- f }

// Held waits for a call that waits.
func (f *Faults) Held(ctx context.Context) (*Held, error) {
	select {
	case h := <-f.held:
		return h, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fate is what happens to the next call of an operation.
func (f *Faults) fate(ctx context.Context, op Op) (Fault, error) {
	f.mu.Lock()
	f.n[op]++
	call := Call{op, f.n[op]}
	f.mu.Unlock()
	fate := f.plan(call)
	if fate != Hold {
		return fate, nil
	}
	h := &Held{call, make(chan Fault, 1)}
	select {
	case f.held <- h:
	default:
		panic(fmt.Sprintf("%d calls wait: free some", maxHeld))
	}
	select {
	case fate = <-h.free:
		return fate, nil
	case <-ctx.Done():
		return Pass, ctx.Err()
	}
}

// do makes a call as its fate will have it.
func do[T any](ctx context.Context, f *Faults, op Op, call func() (T, error)) (answer T, err error) {
	fate, err := f.fate(ctx, op)
	if err != nil {
		return answer, err
	}
	var none T
	switch fate {
	case FailBefore, UnknownBefore:
		return none, fate.err(op)
	case FailAfter, UnknownAfter:
		if _, err := call(); err != nil {
			return none, err
		}
		return none, fate.err(op)
	case Twice:
		if _, err := call(); err != nil {
			return none, err
		}
	}
	return call()
}

func (f Fault) err(op Op) error {
	if f == UnknownBefore || f == UnknownAfter {
		return fmt.Errorf("%s: %w", op, queue.ErrUnknown)
	}
	return fmt.Errorf("%s: %w", op, ErrInjected)
}

// try is do for calls that only fail or not.
func try(ctx context.Context, f *Faults, op Op, call func() error) error {
	_, err := do(ctx, f, op, func() (struct{}, error) { return struct{}{}, call() })
	return err
}
