package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// report prints the outcome of one request. If the only run refused, it returns an error instead, which says everything.
func (a *asking) report(got answered) error {
	j := runview.NewControlJSON(&got.Control, got.retryOf)
	if got.Outcome == dagrun.Refused {
		a.blame(conflict, &failure{kind: conflict, err: errors.New(runview.RefusalText(&got.Control)), hint: runview.RefusalHint(&got.Control)})
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

// object returns all outcomes as an array; for a single run that the user named it returns the outcome itself.
func (a *asking) object() answer {
	if !a.many && len(a.done) == 1 {
		return answer{object: a.done[0]}
	}
	return answer{object: a.done}
}

// line writes one outcome for people: run 41: cancel accepted, still running.
func (a *asking) line(c *answered) string {
	paint := a.env.stdoutPaint()
	what := runview.AskedOf(&c.Control)
	word, rest := runview.Outcome(&c.Control)
	switch {
	case c.retryOf != 0 && c.State == "queued":
		return fmt.Sprintf("%s: %s of run %d with its own number\n", what, paint.good("made"), c.retryOf)
	case c.Outcome == dagrun.Refused:
		word = paint.bad(word)
	case c.Outcome == "":
		word = paint.warn(word)
	case c.waits != "" && !a.wait:
		return fmt.Sprintf("%s: %s\n", what, c.waits)
	default:
		word = paint.good(word)
	}
	return fmt.Sprintf("%s: %s %s%s\n", what, a.verb, word, rest)
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

// rehearse prints the runs that the command would ask.
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
