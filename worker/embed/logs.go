package embed

import (
	"context"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/logship"
)

// logs adapts a shipper to the interface of drivers.
type logs struct{ shipper *logship.Shipper }

// newLogs starts a shipper for one registration of the worker, with the limits of Config.Logs, and shows its figures as metrics.
// The worker closes the result. now returns the database's time.
func (r *Rig) newLogs(sink worker.Writer, now func() time.Time) worker.Logs {
	c := r.config.Logs
	c.Sink, c.Now, c.Followed = sink, now, r.followed
	shipper := logship.New(c)
	r.metrics.WatchLogs(shipper.Stats)
	return logs{shipper}
}

func (r *Rig) followed(run queue.RunID) bool {
	session := r.session.Load()
	return session != nil && session.Followed(run)
}

func (l logs) Open(name worker.LogName) worker.Log {
	at := queue.Chunk{Run: name.Run, Task: name.Task, Attempt: name.Attempt, Day: name.Day, Seq: name.Next, Lines: name.Lines}
	return log{l.shipper.Open(at, nil)}
}

func (l logs) Close() { l.shipper.Close() }

func (l logs) Hurry() { l.shipper.Hurry() }

type log struct{ *logship.Log }

// Close implements worker.Log. It waits a bounded time for the rest of the log, regardless of ctx: see logship.Log.Close. Every
// byte of the log is then stored, in last, or counted as dropped.
func (l log) Close(_ context.Context, reason string) (last []queue.Chunk, lastLine string) {
	return l.Log.Close(reason), l.LastLine()
}
