package worker

import (
	"context"
	"io"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// Logs takes what bodies write.
type Logs interface {
	Open(name LogName, secrets map[string]string) Log
	Close() // once nothing is under way any more
}

// Log is the log of one attempt.
type Log interface {
	Stdout() io.Writer
	Stderr() io.Writer
	// Close ends the log. What it returns, the last pieces with the final marker, rides with the record of the end.
	Close(ctx context.Context, reason string) (last []queue.Chunk, lastLine string)
}

// LogName says which attempt a log belongs to.
type LogName struct {
	Run     queue.RunID
	Task    dagrun.TaskID
	Attempt int
	Day     time.Time
}

func (d *driver) logName(a dagrun.Action) LogName {
	row, _ := d.run.Task(a.Task)
	return LogName{Run: d.claim.Run, Task: a.Task, Attempt: a.Attempt, Day: queue.LogDay(row.AttemptAt)}
}

// closeLogs ends the logs that were kept for a publish, once their attempt is over.
func (d *driver) closeLogs(ctx context.Context, rows []dagrun.TaskRecord) {
	if len(d.kept) == 0 {
		return
	}
	for i := range rows {
		row := &rows[i]
		log := d.kept[row.ID]
		if log == nil || row.State == dagrun.TaskFinishing || row.State == dagrun.TaskRetrying && row.Publishing {
			continue
		}
		delete(d.kept, row.ID)
		word := row.State.String()
		if row.Kind != dagrun.KindNone {
			word = string(row.Kind)
		}
		chunks, line := log.Close(ctx, word)
		d.extra.chunks = append(d.extra.chunks, chunks...)
		d.extra.details = append(d.extra.details, queue.Detail{Task: row.ID, LastLine: line})
	}
}

// endWord says in a word how a body ended.
func endWord(res dagrun.Result) string {
	if res.Kind == dagrun.KindNone {
		return dagrun.TaskSucceeded.String()
	}
	return string(res.Kind)
}
