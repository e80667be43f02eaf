package storetest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"

	"github.com/oarlock-dev/oarlock/queue"
)

// ErrInjected is the error of FailBefore and FailAfter.
var ErrInjected = errors.New("injected fault: the connection broke")

// maxHeld bounds the number of calls that wait at once.
const maxHeld = 1024

// Fault says what happens to a call.
type Fault uint8

// The faults that a Plan can choose.
const (
	Pass          Fault = iota // the call is made as it is
	FailBefore                 // the call fails with ErrInjected and is not applied
	FailAfter                  // the call is applied and fails with ErrInjected: its reply is lost
	UnknownBefore              // the call fails with queue.ErrUnknown and is not applied
	UnknownAfter               // the call is applied and fails with queue.ErrUnknown
	Twice                      // the call is applied twice; the caller gets the second answer
	Hold                       // the call waits until the test frees it, see Faults.Held
	faults
)

func (f Fault) String() string {
	return [...]string{"pass", "fail before", "fail after", "unknown before", "unknown after", "twice", "hold"}[f]
}

// Op names a method of a role.
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
	OpDoChores     Op = "DoChores"
	OpSweep        Op = "Sweep"
	OpAttend       Op = "Attend"
	OpPermits      Op = "Permits"
	OpLeaveAlone   Op = "LeaveAlone"
	OpLoad         Op = "Load"
	OpReadMail     Op = "ReadMail"
	OpDefinition   Op = "Definition"
	OpHear         Op = "Hear"
	OpCached       Op = "Cached"
	OpCommit       Op = "Commit"
	OpRelease      Op = "Release"
	OpFailRun      Op = "FailRun"
	OpEnqueueChild Op = "EnqueueChild"
	OpRenew        Op = "Renew"
	OpDrain        Op = "Drain"
	OpClose        Op = "Close"
	OpAppendLogs   Op = "AppendLogs"
)

// Call identifies one call: the Nth of its operation, counted from 1.
type Call struct {
	Op Op
	N  int
}

func (c Call) String() string { return fmt.Sprintf("%s %d", c.Op, c.N) }

// Plan decides what happens to a call. Several goroutines may call a Plan at once.
type Plan func(Call) Fault

// Script returns a plan with faults for single calls. All other calls pass.
func Script(faults map[Call]Fault) Plan {
	return func(c Call) Fault { return faults[c] }
}

// Odds are the odds of faults, in thousandths of all calls.
type Odds map[Fault]int

// Seeded returns a plan that draws the faults from a seed. What happens to a call does not depend on the calls of other
// operations.
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

// Faults applies a Plan to the calls of a Client or a Session.
type Faults struct {
	plan Plan
	mu   sync.Mutex
	n    map[Op]int
	held chan *Held
}

// NewFaults returns Faults that follow a plan.
func NewFaults(p Plan) *Faults {
	return &Faults{plan: p, n: map[Op]int{}, held: make(chan *Held, maxHeld)}
}

// Held is a call that waits for the test.
type Held struct {
	Call Call
	free chan Fault
}

// Free lets the call go on with fault f. A test must call Free once for each held call.
func (h *Held) Free(f Fault) { h.free <- f }

// Held returns the next call that waits, and blocks until there is one.
func (f *Faults) Held(ctx context.Context) (*Held, error) {
	select {
	case h := <-f.held:
		return h, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fate returns the fault of the next call of an operation. For Hold it blocks until the call is freed.
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

// do makes a call and applies its fault.
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

// try is do for calls that return only an error.
func try(ctx context.Context, f *Faults, op Op, call func() error) error {
	_, err := do(ctx, f, op, func() (struct{}, error) { return struct{}{}, call() })
	return err
}
