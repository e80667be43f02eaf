package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// jsonControl is a request to a run and what became of it. No outcome: the run's driver has not decided yet.
type jsonControl struct {
	ID        *int64     `json:"id"` // null: a new run was made, nothing was asked of an old one
	Run       int64      `json:"run"`
	Step      *string    `json:"step"`
	Item      *string    `json:"item"`
	Verb      string     `json:"verb"`
	By        *string    `json:"by"`
	At        *time.Time `json:"at"`
	DecidedAt *time.Time `json:"decided_at"`
	Outcome   *string    `json:"outcome"`
	State     *string    `json:"state"`
	Message   *string    `json:"message"`
	RetryOf   *int64     `json:"retry_of"`
}

func controlJSON(c *answered) jsonControl {
	return jsonControl{
		orZeroNull(c.ID), int64(c.Run), runview.TextOrNull(c.Step), runview.TextOrNull(c.Item), c.Verb.String(), runview.TextOrNull(c.By), runview.TimeOrNull(c.At),
		runview.TimeOrNull(c.DecidedAt), runview.TextOrNull(string(c.Outcome)), runview.TextOrNull(c.State), runview.TextOrNull(c.Message), orZeroNull(int64(c.retryOf)),
	}
}

func orZeroNull(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// report says what became of one request. A refusal by the only run there is, is an error, and says it all.
func (a *asking) report(got answered) error {
	j := controlJSON(&got)
	if got.Outcome == dagrun.Refused {
		a.blame(conflict, &failure{kind: conflict, err: errors.New(refusalText(&got)), hint: a.hint(&got)})
	}
	if a.done != nil {
		a.done = append(a.done, j)
		return nil
	}
	one := answer{object: j, ids: []string{decimal(cmp.Or(got.ID, int64(got.Run)))}}
	if a.many || got.Outcome != dagrun.Refused {
		one.text = a.line(&got)
	}
	return a.env.say(one)
}

// object is all answers: an array, but of one run that was named the answer itself.
func (a *asking) object() answer {
	if !a.many && len(a.done) == 1 {
		return answer{object: a.done[0]}
	}
	return answer{object: a.done}
}

// line is one answer for people: run 41: cancel accepted, still running.
func (a *asking) line(c *answered) string {
	paint := a.env.stdoutPaint()
	what := askedOf(c)
	word, rest := runview.Outcome(&c.Control)
	switch {
	case c.retryOf != 0 && c.State == "queued":
		return fmt.Sprintf("%s: %s of run %d with its own number\n", what, paint.good("made"), c.retryOf)
	case c.Outcome == dagrun.Refused:
		word = paint.bad(word)
	case c.Outcome == "":
		word = paint.warn(word)
	case c.waits != "" && !a.wait:
		return fmt.Sprintf("%s: %s\n", what, waitsFor(c))
	default:
		word = paint.good(word)
	}
	return fmt.Sprintf("%s: %s %s%s\n", what, a.verb, word, rest)
}

// askedOf is a run, or a step of it.
func askedOf(c *answered) string {
	if c.Step == "" {
		return fmt.Sprintf("run %d", c.Run)
	}
	return fmt.Sprintf("run %d %s", c.Run, runview.Printable(runview.TaskName(c.Step, c.Item)))
}

func refusalText(c *answered) string {
	message := runview.Printable(c.Message)
	if strings.HasPrefix(message, "run ") {
		return message
	}
	return askedOf(c) + ": " + message
}

// hint is what a refused request leaves to do.
func (a *asking) hint(c *answered) string {
	return fmt.Sprintf("`%s status %d` shows where it is", program, c.Run)
}

func (a *asking) remarkMore(ctx context.Context, last queue.RunID) error {
	if last == 0 || a.count < a.choose.most {
		return nil
	}
	more, err := a.choose.more(ctx, a.store, last)
	if more {
		a.env.remark("that were %s; there are more: repeat the command, or raise --limit", runview.Count(a.count, "run"))
	}
	return err
}

type jsonRehearsed struct {
	Run       int64      `json:"run"`
	DAG       string     `json:"dag"`
	State     string     `json:"state"`
	Reason    string     `json:"reason"`
	CreatedAt *time.Time `json:"created_at"`
}

// rehearse prints the runs that would be asked.
func (a *asking) rehearse(ctx context.Context) error {
	runs, err := a.chosen(ctx)
	if err != nil {
		return err
	}
	paint := a.env.stdoutPaint()
	object := []jsonRehearsed{}
	all := answer{lines: []any{}, ids: []string{}}
	t := table{head: paint.head("RUN", "DAG", "STATE", "CREATED", "REASON")}
	for i := range runs {
		r := &runs[i]
		j := jsonRehearsed{int64(r.ID), r.DAG, r.State, r.Reason, runview.TimeOrNull(r.CreatedAt)}
		object = append(object, j)
		all.lines = append(all.lines, j)
		all.ids = append(all.ids, decimal(j.Run))
		t.rows = append(t.rows, []string{decimal(j.Run), r.DAG, paint.runState(r.State), runview.LocalTime(r.CreatedAt), paint.dim(runview.Printable(r.Reason))})
	}
	all.object = object
	if len(runs) > 0 {
		all.text = a.env.fitted(t.String())
	}
	if err := a.env.say(all); err != nil {
		return err
	}
	whom := runview.Count(len(runs), "run")
	if a.target.step != "" {
		whom = "step " + runview.TaskName(a.target.step, a.target.item) + " of " + whom
	}
	a.env.remark("would %s %s; nothing was asked", a.verb, whom)
	return nil
}

func (a *asking) chosen(ctx context.Context) (runs []queue.Run, err error) {
	if a.choose.asked {
		for page, err := range a.choose.pages(ctx, a.store) {
			if err != nil {
				return nil, err
			}
			runs = append(runs, page...)
		}
		return runs, nil
	}
	ids, err := a.target.find(ctx, a.store)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		r, err := a.store.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		runs = append(runs, *r)
	}
	return runs, nil
}
