package queue

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

// Bounds of a Page.
const (
	DefaultPage = 50
	MaxPage     = 1000
)

var listSQL = sql.Named("queue/list")

// List reads a page of runs, newest first: those that the user may see.
func (s *Store) List(ctx context.Context, f Filter) (Page, error) {
	const op = "list runs"
	args, err := f.args()
	if err != nil {
		return Page{}, said(op, err)
	}
	runs, err := list(ctx, s, listSQL, args, scanRun)
	if err != nil {
		return Page{}, said(op, err)
	}
	page := Page{Runs: runs}
	if len(runs) == f.limit() {
		page.Next = runs[len(runs)-1].ID
	}
	return page, nil
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
