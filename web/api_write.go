package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	decisionWait    = "3s" // the default of the command line, too
	maxDecisionWait = 20 * time.Second
)

// enqueueBody is the body of a request for a run. Its names are those of the SQL function oarlock.enqueue.
type enqueueBody struct {
	DAG      string                     `json:"dag"`
	Params   map[string]json.RawMessage `json:"params"`
	Queue    string                     `json:"queue"`
	Priority *int32                     `json:"priority"`
	RunAt    string                     `json:"run_at"`
	Labels   map[string]string          `json:"labels"`
	RunKey   string                     `json:"run_key"`
	Version  int32                      `json:"version"`
}

// apiEnqueue enqueues a run, and answers with the run and its path in the header Location. The run stays enqueued if the
// client disconnects.
func (s *server) apiEnqueue(w http.ResponseWriter, r *http.Request) error {
	var body enqueueBody
	if err := readBody(r, &body); err != nil {
		return err
	}
	request, err := body.request(time.Now())
	if err == nil {
		err = s.checkParams(r.Context(), &body)
	}
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(r.Context()) // the request stands even if the client disconnects
	id, err := s.store.Enqueue(ctx, request)
	if err != nil {
		return err
	}
	w.Header().Set("Location", s.options.Base+apiRoot+runPath(id))
	run, err := s.store.Get(ctx, id)
	if err != nil {
		return fmt.Errorf("run %d was asked for, but cannot be read: %w", id, err)
	}
	return answerJSON(w, http.StatusCreated, runview.NewRunJSON(run))
}

// checkParams refuses params with which the run would fail at its start, such as a text that does not match its pattern. It checks
// nothing if the request names a version of the DAG, or if the definition of the DAG cannot be read.
func (s *server) checkParams(ctx context.Context, b *enqueueBody) error {
	if b.Version != 0 {
		return nil
	}
	spec, err := s.currentSpec(ctx, b.DAG)
	if spec == nil || err != nil {
		return nil //nolint:nilerr // the database reports what is wrong with the DAG
	}
	given := make(map[string]any, len(b.Params))
	for name, value := range b.Params {
		var v any
		if err := json.Unmarshal(value, &v); err != nil {
			return unfit("params: "+name+" is no JSON", "Give a number, a text, true, false, a list or an object.")
		}
		given[name] = v
	}
	if _, err := spec.Params(given); err != nil {
		return unfit(runview.InlineText(err.Error()), "GET /api/v1/dags lists DAGs; `oarlock dag show` prints their params.")
	}
	return nil
}

func (b *enqueueBody) request(now time.Time) (queue.Request, error) {
	r := queue.Request{DAG: b.DAG, Queue: b.Queue, Labels: b.Labels, Key: b.RunKey, Version: int(b.Version), Manual: true}
	if b.DAG == "" {
		return r, unfit("dag is missing", `Name the DAG to run, like {"dag": "etl"}.`)
	}
	if b.Params != nil {
		r.Params = b.Params
	}
	if b.Priority != nil {
		r.Priority = new(int(*b.Priority))
	}
	if b.RunAt != "" {
		at, ok, err := runview.ReadUpcoming(b.RunAt, now, time.Local)
		if err != nil || !ok {
			return r, unfit(fmt.Sprintf("run_at: %q is neither a time nor a duration from now on", b.RunAt), "Write 2026-11-20T06:00:00Z, or +10m.")
		}
		r.RunAt = at
	}
	return r, nil
}

// unfit returns the refusal (422) of a value in a request.
func unfit(message, hint string) error {
	return &refusal{status: http.StatusUnprocessableEntity, message: message, hint: hint}
}

// taskBody names the task of a request, and says how long to wait for the decision of the run's driver.
type taskBody struct {
	Step   string `json:"step"`
	Item   string `json:"item"`
	Within string `json:"within"`
}

// askBody is the body of a request to a run. Its fields are the flags of the command for the same verb.
type askBody interface {
	fill(ask *queue.Ask) error
	task() *taskBody
}

type cancelBody struct {
	taskBody

	Now bool `json:"now"`
}

type approveBody struct {
	taskBody

	Inputs  map[string]json.RawMessage `json:"inputs"`
	Comment string                     `json:"comment"`
}

type rejectBody struct {
	taskBody

	Comment string `json:"comment"`
}

type markBody struct {
	taskBody

	As     string                     `json:"as"`
	Values map[string]json.RawMessage `json:"values"`
}

type retryBody struct {
	taskBody

	From   string                     `json:"from"`
	All    bool                       `json:"all"`
	Latest bool                       `json:"latest"`
	Params map[string]json.RawMessage `json:"params"`
}

// newAskBody returns an empty body of the type that requests with the verb have.
func newAskBody(verb dagrun.Verb) askBody {
	switch verb {
	case dagrun.VerbCancel:
		return &cancelBody{}
	case dagrun.VerbRetry:
		return &retryBody{}
	case dagrun.VerbApprove:
		return &approveBody{}
	case dagrun.VerbReject:
		return &rejectBody{}
	case dagrun.VerbMark:
		return &markBody{}
	default:
		return &taskBody{}
	}
}

func (b *taskBody) task() *taskBody { return b }

func (b *taskBody) fill(ask *queue.Ask) error {
	ask.Step, ask.Item = b.Step, b.Item
	switch {
	case b.Step == "" && needsStep(ask.Verb):
		return unfit("step is missing", `Name the step, like {"step": "confirm"}.`)
	case b.Step == "" && b.Item != "":
		return unfit("item needs a step", "Name the step of the item, too.")
	}
	return nil
}

func (b *cancelBody) fill(ask *queue.Ask) error {
	ask.Now = b.Now
	return b.taskBody.fill(ask)
}

func (b *approveBody) fill(ask *queue.Ask) error {
	outputs := map[string]any{}
	for name, value := range b.Inputs {
		outputs[name] = value
	}
	if b.Comment != "" {
		if _, twice := outputs["comment"]; twice {
			return unfit("comment and inputs.comment are the same", "Give comment or inputs.comment.")
		}
		outputs["comment"] = b.Comment
	}
	if len(outputs) > 0 {
		ask.Outputs = outputs
	}
	return b.taskBody.fill(ask)
}

func (b *rejectBody) fill(ask *queue.Ask) error {
	ask.Reason = b.Comment
	return b.taskBody.fill(ask)
}

func (b *markBody) fill(ask *queue.Ask) (err error) {
	if ask.As, err = dagrun.ParseState(b.As); err != nil || !slices.Contains(markable, ask.As) {
		return unfit(fmt.Sprintf("as: a step cannot be marked %q", b.As), "Mark the step as succeeded, skipped or failed.")
	}
	if len(b.Values) > 0 {
		ask.Outputs = b.Values
	}
	return b.taskBody.fill(ask)
}

// rerun reports whether the request makes a new run instead of retrying the same run. It does so with latest, and with params, even
// if these are an empty object.
func (b *retryBody) rerun() bool { return b.Latest || b.Params != nil }

func (b *retryBody) fill(ask *queue.Ask) error {
	modes := []dagrun.RetryMode{}
	if b.From != "" {
		modes = append(modes, dagrun.RetryFrom)
	}
	if b.Step != "" {
		modes = append(modes, dagrun.RetryStep)
	}
	if b.All {
		modes = append(modes, dagrun.RetryAll)
	}
	ask.Mode = dagrun.RetryFailed
	switch {
	case len(modes) > 1:
		return unfit("from, step and all exclude each other", "Give only one of the three.")
	case len(modes) > 0 && b.rerun():
		return unfit("a new run runs all steps", "Leave out from, step and all, or latest and params.")
	case len(modes) > 0:
		ask.Mode = modes[0]
	}
	ask.Step, ask.Item = cmp.Or(b.From, b.Step), b.Item
	if ask.Item != "" && ask.Step == "" {
		return unfit("item needs a step", "Name the step of the item in from or step.")
	}
	return nil
}

// apiAsk returns the handler that sends a control with the verb to a run, and waits for the run's driver to decide it. The answer
// has status 200 with the outcome, 409 if the run refuses, or 202 if there is no decision within the time in the body. A retry for
// which rerun is true goes to apiRerun instead.
func (s *server) apiAsk(verb dagrun.Verb) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := apiRunID(r)
		if err != nil {
			return err
		}
		body, ask := newAskBody(verb), queue.Ask{Run: id, Verb: verb}
		if err := readBody(r, body); err != nil {
			return err
		}
		within, err := body.task().wait()
		if err != nil {
			return err
		}
		if err := body.fill(&ask); err != nil {
			return err
		}
		if retry, ok := body.(*retryBody); ok && retry.rerun() {
			return s.apiRerun(w, r, id, retry)
		}
		c, err := s.store.Control(context.WithoutCancel(r.Context()), ask)
		if err != nil {
			return err
		}
		if c, err = s.decided(r.Context(), c, within); err != nil {
			return err
		}
		return answerControl(w, &c)
	}
}

// wait does not wait: it returns how long apiAsk waits for the decision. That is Within, or decisionWait if Within is empty. It
// refuses a text that is no duration, or more than maxDecisionWait.
func (b *taskBody) wait() (time.Duration, error) {
	within, err := dagspec.ParseDuration(cmp.Or(b.Within, decisionWait))
	if err != nil || within.Std() > maxDecisionWait {
		return 0, unfit(fmt.Sprintf("within: %q is no duration up to %s", b.Within, maxDecisionWait), `Write "3s", or "0s" to wait for nothing.`)
	}
	return within.Std(), nil
}

// decided waits until the run's driver has decided asked, and returns the control with its outcome. It returns asked unchanged and
// at once if asked has an outcome or within is 0, and unchanged after the time within if there is no decision.
func (s *server) decided(ctx context.Context, asked queue.Control, within time.Duration) (queue.Control, error) {
	if asked.Outcome != "" || within == 0 {
		return asked, nil
	}
	patience, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c, err := s.store.AwaitControl(patience, asked)
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() == nil && errors.Is(patience.Err(), context.DeadlineExceeded):
		return asked, nil
	}
	return asked, err
}

// answerControl answers with a control: status 200 if it has an outcome, or 202 if it has none yet. If the run refused the control,
// it returns a refusal with status 409.
func answerControl(w http.ResponseWriter, c *queue.Control) error {
	switch c.Outcome {
	case dagrun.Refused:
		return &refusal{status: http.StatusConflict, message: runview.RefusalText(c), hint: runview.RefusalHint(c)}
	case "":
		return answerJSON(w, http.StatusAccepted, runview.NewControlJSON(c, 0))
	default:
		return answerJSON(w, http.StatusOK, runview.NewControlJSON(c, 0))
	}
}

// apiRerun makes a new run like run id, which must have ended, and answers with the path of the new run in the header Location. The
// params of body replace those of the old run, name by name. With body.Latest the new run uses the DAG's current version.
func (s *server) apiRerun(w http.ResponseWriter, r *http.Request, id queue.RunID, body *retryBody) error {
	params := make(map[string]any, len(body.Params))
	for name, value := range body.Params {
		params[name] = value
	}
	ctx := context.WithoutCancel(r.Context())
	made, err := s.store.Rerun(ctx, id, params, body.Latest)
	if err != nil {
		return err
	}
	w.Header().Set("Location", s.options.Base+apiRoot+runPath(made))
	run, err := s.store.Get(ctx, made)
	if err != nil {
		return fmt.Errorf("run %d was made of run %d, but cannot be read: %w", made, id, err)
	}
	c := runview.MadeControl(run)
	return answerJSON(w, http.StatusOK, runview.NewControlJSON(&c, id))
}
