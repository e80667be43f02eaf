package queue

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Request asks for a run. Only DAG is required; docs/sql-api.md, oarlock.enqueue, says what the fields mean.
type Request struct {
	DAG         string
	Params      any // marshalled as JSON; json.RawMessage as it is
	Key         string
	RunAt       time.Time
	Priority    *int
	Queue       string
	Labels      map[string]string
	Selector    map[string]string
	LogicalAt   time.Time
	Traceparent string
	Precomputed json.RawMessage
	Version     int
	Manual      bool // asked for by a person: the run shows trigger "manual" instead of "sql"
}

// Bulk asks for many runs of one DAG: all of them or none.
type Bulk struct {
	DAG         string
	Params      []any
	Keys        []string // nil, or one for each; "" for none
	RunAt       time.Time
	Priority    *int
	Queue       string
	Labels      map[string]string
	Selector    map[string]string
	Traceparent string
	Version     int
}

// Ask is a control on its way: a request to a run, or to one task of it.
type Ask struct {
	Run     RunID
	Verb    dagrun.Verb
	Step    string // its name, a replacement's as step~1, a handler's as @exit; "" for the run
	Item    string
	Now     bool             // cancel: without handlers
	Mode    dagrun.RetryMode // retry
	As      dagrun.State     // mark
	Outputs any              // approve and mark: marshalled as a JSON object
	Reason  string           // reject
}

// Control is a request to a run, and what became of it.
type Control struct {
	ID        int64
	Run       RunID
	Verb      dagrun.Verb
	Step      string
	Item      string
	Args      json.RawMessage
	By        string
	At        time.Time
	DecidedAt time.Time // zero: not yet
	Outcome   dagrun.Outcome
	State     string
	Message   string
}

// For turns a stored control into the one the core takes: names into numbers, arguments into fields.
func (c *Control) For(g *dagrun.Graph) (*dagrun.Control, error) {
	core := &dagrun.Control{ID: c.ID, Verb: c.Verb, By: c.By}
	if err := c.aim(g, core); err != nil {
		return nil, fmt.Errorf("control %d: %w", c.ID, err)
	}
	if err := c.fill(core); err != nil {
		return nil, fmt.Errorf("control %d: %w", c.ID, err)
	}
	return core, nil
}

func (c *Control) aim(g *dagrun.Graph, core *dagrun.Control) error {
	if c.Step == "" {
		return nil
	}
	id, err := g.ParseTask(c.Step) // without its item, which may look like anything
	if err != nil {
		return err
	}
	id.Item = c.Item
	core.Task = &id
	return nil
}

// controlArgs are the arguments of all verbs.
type controlArgs struct {
	Now        bool            `json:"now"`
	Mode       string          `json:"mode"`
	Generation int             `json:"generation"`
	As         string          `json:"as"`
	Outputs    json.RawMessage `json:"outputs"`
	Reason     string          `json:"reason"`
	Ref        string          `json:"ref"`
	State      string          `json:"state"`
	Decides    []string        `json:"decides"`
}

func (c *Control) fill(core *dagrun.Control) (err error) {
	var args controlArgs
	if len(c.Args) > 0 {
		if err := json.Unmarshal(c.Args, &args); err != nil {
			return fmt.Errorf("arguments: %w", err)
		}
	}
	core.Now, core.Generation, core.Ref = args.Now, args.Generation, args.Ref
	core.Outputs, core.Text, core.Decides = dagrun.JSON(args.Outputs), args.Reason, args.Decides
	switch c.Verb {
	case dagrun.VerbRetry:
		core.Mode, err = dagrun.ParseRetryMode(args.Mode)
	case dagrun.VerbMark:
		core.As, err = dagrun.ParseState(args.As)
	case dagrun.VerbChildEnded:
		core.Result, err = childResult(args)
	}
	return err
}

// childResult is how the end of a child run looks to the task that waits for it.
func childResult(args controlArgs) (*dagrun.Result, error) {
	state, err := dagrun.ParseRunState(args.State)
	if err != nil {
		return nil, err
	}
	if state == dagrun.RunSucceeded {
		return &dagrun.Result{Outputs: dagrun.JSON(`{"run_id":` + args.Ref + `}`)}, nil
	}
	reason := fmt.Sprintf("run %s %s", args.Ref, state)
	if args.Reason != "" {
		reason += ": " + clipped(args.Reason)
	}
	return &dagrun.Result{Kind: dagrun.KindChild, Reason: reason}, nil
}

// maxChildReason bounds what a reason quotes of a child's, which may quote its own child's.
const maxChildReason = 500

// clipped keeps the end of a long reason: there it says what began it.
func clipped(reason string) string {
	if len(reason) <= maxChildReason {
		return reason
	}
	return "…" + strings.ToValidUTF8(reason[len(reason)-maxChildReason:], "")
}
