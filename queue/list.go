package queue

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/oarlock-dev/oarlock/sql"
)

// Bounds of a Page.
const (
	DefaultPage = 50
	MaxPage     = 1000
)

var (
	listSQL       = sql.Named("queue/list")
	listLookedSQL = sql.Named("queue/list_looked")
)

// List reads a page of runs, newest first: those that the user may see.
func (s *Store) List(ctx context.Context, f Filter) (Page, error) {
	const op = "list runs"
	args, err := f.args()
	if err != nil {
		return Page{}, said(op, err)
	}
	var page Page
	if f.Look > 0 {
		page, err = s.lookForRuns(ctx, args, f.Look)
	} else {
		page.Runs, err = list(ctx, s, listSQL, args, scanRun)
	}
	if err != nil {
		return Page{}, said(op, err)
	}
	if n := len(page.Runs); n == f.limit() {
		page.Next = page.Runs[n-1].ID
	}
	return page, nil
}

// lookForRuns reads a page that may be short: its Next is then where the look ended.
func (s *Store) lookForRuns(ctx context.Context, args pgx.StrictNamedArgs, look int) (Page, error) {
	args["look"] = look
	found, err := list(ctx, s, listLookedSQL, args, scanFoundRun)
	var page Page
	for i := range found {
		page.Next = found[i].stop
		if found[i].run.ID != 0 {
			page.Runs = append(page.Runs, found[i].run)
		}
	}
	return page, err
}

// foundRun is a row of queue/list_looked: without a run where none was found.
type foundRun struct {
	run  Run
	stop RunID
}

func scanFoundRun(row pgx.CollectableRow) (f foundRun, err error) {
	stop := (*zeronull.Int8)(&f.stop)
	values := row.RawValues()
	if values[0] != nil {
		f.run, err = scanRunAnd(row, stop)
		return f, err
	}
	columns := make([]any, len(values)) // what is nil is not scanned
	columns[len(columns)-1] = stop
	return f, row.Scan(columns...)
}

func (f *Filter) limit() int {
	if f.Limit == 0 {
		return DefaultPage
	}
	return f.Limit
}

func (f *Filter) args() (pgx.StrictNamedArgs, error) {
	if limit := f.limit(); limit < 1 || limit > MaxPage {
		return nil, fmt.Errorf("a page has 1 to %d runs, not %d", MaxPage, limit)
	}
	var labels *string
	if len(f.Labels) > 0 {
		text, err := jsonText("labels", f.Labels)
		if err != nil {
			return nil, err
		}
		labels = text
	}
	return pgx.StrictNamedArgs{
		"states": f.states(), "dag": given(f.DAG), "queue": given(f.Queue), "labels": labels, "parent": given(f.Parent),
		"since": moment(f.Since), "before": given(f.Before), "rows": f.limit(),
	}, nil
}

// states has each once; one null asks for all.
func (f *Filter) states() []*string {
	if len(f.States) == 0 {
		return []*string{nil}
	}
	seen := map[string]bool{}
	var states []*string
	for _, state := range f.States {
		if !seen[state] {
			seen[state] = true
			states = append(states, &state)
		}
	}
	return states
}
