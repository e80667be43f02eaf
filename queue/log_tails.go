package queue

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

// MaxLogTails is how many logs LogTails reads at most.
const MaxLogTails = 20

const tailBytes = 64 << 10 // of one log

var logTailsSQL = sql.Named("queue/log_tails")

// LogOf names a task whose log is read. Step is as in Ask, a replacement's as load~1.
type LogOf struct{ Step, Item string }

// LogTails reads the last lines of the latest attempts of some tasks of a run, in the order in which they are given, at most
// MaxLogTails. A task without a log, or of a run that the user may not see, has a window of attempt 0.
func (s *Store) LogTails(ctx context.Context, run RunID, tasks []LogOf, lines int) ([]LogWindow, error) {
	const op = "read the ends of logs"
	if len(tasks) > MaxLogTails || lines < 1 || lines > MaxWindowLines {
		return nil, said(op, fmt.Errorf("1 to %d lines of at most %d logs are read, not %d of %d", MaxWindowLines, MaxLogTails, lines, len(tasks)))
	}
	steps, items := make([]string, len(tasks)), make([]string, len(tasks))
	for i, task := range tasks {
		steps[i], items[i] = task.Step, task.Item
	}
	rows, err := list(ctx, s, logTailsSQL, pgx.StrictNamedArgs{"run": run, "steps": steps, "items": items, "most": lines, "bytes": tailBytes}, scanTail)
	if err != nil {
		return nil, said(op, err)
	}
	windows := make([]LogWindow, len(tasks))
	for len(rows) > 0 {
		n, place := 0, rows[0].place
		var chunks []windowRow
		for n < len(rows) && rows[n].place == place {
			chunks = append(chunks, rows[n].windowRow)
			n++
		}
		windows[place-1], rows = windowOf(chunks).LogWindow, rows[n:]
		windows[place-1].keepLast(lines)
	}
	return windows, nil
}

// tailRow is a row of the window of one of several logs, counted from 1.
type tailRow struct {
	windowRow

	place int
}

func scanTail(row pgx.CollectableRow) (t tailRow, err error) {
	t.windowRow, err = scanWindow(row, &t.place)
	return t, err
}
