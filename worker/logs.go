package worker

import (
	"context"
	"io"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// Logs stores the output of bodies.
type Logs interface {
	Open(name LogName) Log
	Close() // called once no log is open any more
}

// Log is the log of one attempt.
type Log interface {
	Stdout() io.Writer
	Stderr() io.Writer
	Mask(secrets []string) // masks these values too, from the next write on
	// Close ends the log. It returns the last chunks, with the final marker, which the driver stores in the same commit as the
	// record of the attempt's end.
	Close(ctx context.Context, reason string) (last []queue.Chunk, lastLine string)
}

// LogName identifies the attempt that a log belongs to, and the place where the log goes on.
type LogName struct {
	Run     queue.RunID
	Task    dagrun.TaskID
	Attempt int
	Day     time.Time
	Next    int   // number of its first chunk; 0: a new log
	Lines   int64 // lines that begin before that chunk
}

// logName returns the name of the log for the body of an action. If an earlier drive left the log open for a publish, the name says
// where it goes on, and logName removes the entry from d.left.
func (d *driver) logName(a dagrun.Action) LogName {
	row, _ := d.run.Task(a.Task)
	left := d.left[a.Task]
	name := LogName{
		Run: d.claim.Run, Task: a.Task, Attempt: a.Attempt, Day: queue.LogDay(row.AttemptAt), Next: left.Next, Lines: left.Lines,
	}
	delete(d.left, a.Task)
	return name
}

// closeLogs ends logs that were kept open for a publish, if these rows say that no publish is to come any more. The last chunks go
// into the next commit.
func (d *driver) closeLogs(ctx context.Context, rows []dagrun.TaskRecord) {
	if len(d.kept)+len(d.left) == 0 {
		return
	}
	for i := range rows {
		row := &rows[i]
		if row.LogGoesOn() {
			continue
		}
		word := row.State.String()
		if row.Kind != dagrun.KindNone {
			word = string(row.Kind)
		}
		if log := d.kept[row.ID]; log != nil {
			delete(d.kept, row.ID)
			chunks, line := log.Close(ctx, word)
			d.keepLog(row.ID, chunks, line)
		} else if end, open := d.left[row.ID]; open {
			delete(d.left, row.ID)
			d.endLog(end, word)
		}
	}
}

// keepLog adds the end of a log to the next commit, which also records the end of the attempt. It drops the final marker of a body
// that wrote nothing, because the record suffices then. It keeps the marker of a lost attempt, which may have written something.
func (d *driver) keepLog(task dagrun.TaskID, last []queue.Chunk, lastLine string) {
	if len(last) == 1 {
		c := &last[0]
		if c.Seq == 0 && c.Final && c.Dropped == 0 && len(c.Data) == 0 && c.Reason != string(dagrun.KindLost) {
			return
		}
	}
	d.extra.chunks = append(d.extra.chunks, last...)
	if lastLine != "" {
		d.extra.details = append(d.extra.details, queue.Detail{Task: task, LastLine: lastLine})
	}
}

// leaveLogs closes the logs that are kept for a publish, and adds their rest to the next commit without a final marker: a later
// drive does the publish and goes on with the log. d.left then holds where each log goes on.
func (d *driver) leaveLogs(ctx context.Context) {
	for task, log := range d.kept {
		chunks, _ := log.Close(ctx, "")
		end := queue.LogEnd{Task: task}
		for _, c := range chunks {
			end.Attempt, end.Day, end.Next, end.Lines = c.Attempt, c.Day, c.Seq, c.Lines
			if c.Final && len(c.Data) == 0 && c.Dropped == 0 {
				break
			}
			c.Final, c.Reason = false, ""
			d.extra.chunks = append(d.extra.chunks, c)
			end.Next++
		}
		delete(d.kept, task)
		d.left[task] = end // in case the commit fails and the drive goes on
	}
}

// takeUpLogs ends the logs that a lost driver left open, in the next commit. The log of a task in settled ends as succeeded, other
// logs as lost. If an attempt has a publish to come, its log is not ended: d.left then holds where it goes on.
func (d *driver) takeUpLogs(left *queue.Loaded, settled map[dagrun.TaskID]bool) {
	goesOn := map[dagrun.TaskID]bool{}
	for i := range left.Saved.Tasks {
		row := &left.Saved.Tasks[i]
		goesOn[row.ID] = row.LogGoesOn() || settled[row.ID] && d.run.Spec(row.ID).Publish
	}
	for _, end := range left.Logs {
		switch {
		case end.Final:
		case goesOn[end.Task]:
			d.left[end.Task] = end
		case settled[end.Task]:
			d.endLog(end, dagrun.TaskSucceeded.String())
		default:
			d.endLog(end, string(dagrun.KindLost))
		}
	}
}

// endLog adds the final marker of a log that is not open here to the next commit.
func (d *driver) endLog(end queue.LogEnd, word string) {
	d.extra.chunks = append(d.extra.chunks, queue.Chunk{
		Run: d.claim.Run, Task: end.Task, Attempt: end.Attempt, Day: end.Day, Seq: end.Next, Lines: end.Lines,
		At: at(d.life.clock.now()), Final: true, Reason: word,
	})
}

// endWord returns the reason for the final marker of a log: "succeeded", or the kind of the body's failure.
func endWord(res dagrun.Result) string {
	if res.Kind == dagrun.KindNone {
		return dagrun.TaskSucceeded.String()
	}
	return string(res.Kind)
}
