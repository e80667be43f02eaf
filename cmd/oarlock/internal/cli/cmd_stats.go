package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

func newStatsCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "stats",
		Usage: "count runs by DAG and state, and show how long they took",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "since", Usage: "count runs that ended since `TIME`: a time, or a duration like 2h", Value: "1d"},
			&cli.StringFlag{Name: "dag", Usage: "count only runs of this `DAG`"},
		},
		Description: manual{
			about: fmt.Sprintf(`Counts the runs that have not ended, and the runs that ended since the time of --since: succeeded, failed and
canceled. For ended runs it prints the median, the 95th percentile and the longest duration, from start to end. If a
DAG has more than %d runs in that time, only the newest are counted, and a + marks the count. For readers (role
oarlock_read).`, queue.MaxCounted),
			examples: []string{"oarlock stats", "oarlock stats --since 1h --dag etl", "oarlock stats -o json | jq '.dags[] | select(.failed > 0)'"},
			exits:    []exitNote{{exitOK, "the runs were counted"}, deniedNote, usageNote, unreachableNote, settingsNote},
		}.String(),
		Action: func(c *cli.Context) error { return runStats(c.Context, e, c.String("dag"), c.String("since")) },
	}
}

func runStats(ctx context.Context, e *env, dag, word string) error {
	since, err := moment(word, time.Now())
	if err != nil {
		return err
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		if dag != "" {
			if _, err := store.GetDAG(ctx, dag, 0); err != nil {
				return err
			}
		}
		stats, err := store.Stats(ctx, dag, since)
		if err != nil {
			return err
		}
		if len(stats) == 0 {
			e.remark("no run is open, and none has ended since %s", runview.LocalTime(since))
		}
		return e.say(e.statsAnswer(stats, since))
	})
}

func (e *env) statsAnswer(stats []queue.DAGStats, since time.Time) answer {
	object := runview.NewStatsJSON(stats, since)
	a := answer{lines: []any{}, ids: []string{}}
	paint := e.stdoutPaint()
	t := term.Table{Head: paint.head("DAG", "WAITING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELED", "P50", "P95", "LONGEST")}
	for i := range stats {
		a.lines = append(a.lines, object.DAGs[i])
		a.ids = append(a.ids, object.DAGs[i].DAG)
		t.Rows = append(t.Rows, paint.statsRow(&stats[i]))
	}
	a.object = object
	if len(stats) > 0 {
		a.text = t.String()
	}
	return a
}

// statsRow returns the cells of a DAG's row. It adds up all runs that wait, for whatever reason. The durations are dashes if no run
// has ended.
func (p painter) statsRow(s *queue.DAGStats) []string {
	more := ""
	if s.Ended() >= queue.MaxCounted {
		more = "+"
	}
	times := []string{p.Dim("–"), p.Dim("–"), p.Dim("–")}
	if s.Ended() > 0 {
		times = []string{runview.Span(s.Median), runview.Span(s.P95), runview.Span(s.Longest)}
	}
	return append([]string{
		s.DAG, p.someOf(s.Scheduled+s.Queued+s.Waiting+s.Paused, p.Warn), p.someOf(s.Running, p.Note), p.someOf(s.Succeeded, p.Good) + more,
		p.someOf(s.Failed, p.Bad), p.someOf(s.Canceled, p.Warn),
	}, times...)
}

// someOf returns a number painted by paint, or a dimmed 0.
func (p painter) someOf(n int64, paint func(string) string) string {
	if n == 0 {
		return p.Dim("0")
	}
	return paint(decimal(n))
}
