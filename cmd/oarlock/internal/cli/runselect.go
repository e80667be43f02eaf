package cli

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/queue"
)

// Bounds of commands on selected runs.
const (
	selectPage    = 100 // runs of one page
	selectDefault = 1000
	selectMost    = 100_000
)

var runStates = []string{"scheduled", "queued", "running", "waiting", "paused", "succeeded", "failed", "canceled"}

// selection selects runs by their properties.
type selection struct {
	filter queue.Filter
	most   int
	asked  bool // the user gave a flag that selects
	dryRun bool
}

func selectionFlags(states string) []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "state", Usage: "runs in this `STATE`; may be given again (default " + states + ")"},
		&cli.StringFlag{Name: "dag", Usage: "runs of this `DAG`"},
		&cli.StringFlag{Name: "queue", Usage: "runs of this `QUEUE`"},
		&cli.StringSliceFlag{Name: "label", Aliases: []string{"l"}, Usage: "runs with this label, as `NAME=VALUE`; may be given again"},
		&cli.StringFlag{Name: "since", Usage: "runs made since then, a `TIME` or a duration like 2h"},
		&cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Usage: "at most `N` selected runs, the newest first", Value: selectDefault},
		&cli.BoolFlag{Name: "dry-run", Usage: "only print the runs that would be asked"},
		withinFlag(),
	}
}

// readSelection reads the flags. states are the states to select if no --state is given.
func readSelection(c *cli.Context, states []string) (selection, error) {
	s := selection{most: c.Int("limit"), dryRun: c.Bool("dry-run")}
	for _, name := range []string{"state", "dag", "queue", "label", "since"} {
		s.asked = s.asked || c.IsSet(name)
	}
	for _, state := range c.StringSlice("state") {
		if !slices.Contains(runStates, state) {
			hint := cmp.Or(config.DidYouMean(state, runStates), "one of "+config.OrList(runStates))
			return s, &usageError{msg: fmt.Sprintf("--state: a run is never %q", state), hint: hint}
		}
	}
	if s.most < 1 || s.most > selectMost {
		return s, &usageError{msg: fmt.Sprintf("--limit is from 1 to %d, not %d", selectMost, s.most)}
	}
	labels, err := pairs("--label", c.StringSlice("label"))
	if err != nil {
		return s, err
	}
	since, err := moment(c.String("since"), time.Now())
	if err != nil {
		return s, err
	}
	s.filter = queue.Filter{
		DAG: c.String("dag"), Queue: c.String("queue"), Labels: labels, Since: since,
		States: c.StringSlice("state"),
	}
	if len(s.filter.States) == 0 {
		s.filter.States = states
	}
	return s, nil
}

// pages yields the selected runs, newest first, page by page. Pages go by run number, so a run that changes in between is
// yielded at most once.
func (s selection) pages(ctx context.Context, store *queue.Store) iter.Seq2[[]queue.Run, error] {
	return func(yield func([]queue.Run, error) bool) {
		f, left := s.filter, s.most
		for left > 0 {
			f.Limit = min(selectPage, left)
			page, err := store.List(ctx, f)
			if err != nil {
				yield(nil, err)
				return
			}
			if len(page.Runs) > 0 && !yield(page.Runs, nil) || page.Next == 0 {
				return
			}
			left -= len(page.Runs)
			f.Before = page.Next
		}
	}
}

// more reports whether older runs than last fit the selection.
func (s selection) more(ctx context.Context, store *queue.Store, last queue.RunID) (bool, error) {
	f := s.filter
	f.Before, f.Limit = last, 1
	page, err := store.List(ctx, f)
	return len(page.Runs) > 0, err
}
