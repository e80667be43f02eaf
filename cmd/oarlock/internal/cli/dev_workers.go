package cli

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	maxDevWorkers = 64
	devRestart    = 5 * time.Second // from the end of a worker to its next start: longer than a lease of 1 s
)

// workerColors tell workers apart on a terminal.
var workerColors = []string{"36", "33", "35", "34", "32"}

// devWorker is a worker of `oarlock dev`. It belongs to dev's main loop.
type devWorker struct {
	*ownWorker

	endedAt time.Time // zero: the worker was running at the loop's last look
	drained bool      // it ended because dev stopped it, and is not started again
}

func (d *dev) startWorkers(n, slots int) error {
	e := d.env
	prefix := func(name string) string {
		return e.stderrPaint().paint(workerColors[len(d.workers)%len(workerColors)], name) + " | "
	}
	for range n {
		w, err := e.startWorker("dev", prefix, []string{"--drain-timeout", devDrain, "--slots", decimal(int64(slots))})
		if err != nil {
			return err
		}
		d.workers = append(d.workers, &devWorker{ownWorker: w})
		e.remark("worker    %s  pid %d", w.name, w.pid())
	}
	return nil
}

// restartWorkers starts ended workers again after devRestart. It returns an error if a worker ended with an exit status
// that another start would not change.
func (d *dev) restartWorkers() error {
	for _, w := range d.workers {
		if !w.hasEnded() || w.drained {
			continue
		}
		if w.endedAt.IsZero() {
			w.endedAt = time.Now()
			if err := d.explainEnd(w); err != nil {
				return err
			}
			continue
		}
		if time.Since(w.endedAt) < devRestart {
			continue
		}
		if err := w.start(d.env); err != nil {
			return err
		}
		w.endedAt = time.Time{}
		d.env.remark("worker    %s  pid %d, started again", w.name, w.pid())
	}
	return nil
}

// explainEnd prints how a worker ended. If no worker can work for that reason, it returns the reason as an error.
func (d *dev) explainEnd(w *devWorker) error {
	code := w.command.ProcessState.ExitCode()
	switch {
	case w.failed == nil:
		w.drained = true
		d.env.remark("%s (pid %d) was drained: its runs go on elsewhere, and it stays away", w.name, w.pid())
	case code == int(exitUsage) || slices.Contains(finalExits, code):
		return fmt.Errorf("worker %s ended: %w", w.name, w.failed)
	default:
		d.env.remark("%s (pid %d) ended: %v; its runs go on, and it starts again in %s", w.name, w.pid(), w.failed, devRestart)
	}
	return nil
}

// drainWorkers stops all workers and returns once they have ended in order.
func (d *dev) drainWorkers() error {
	var err error
	for _, w := range d.workers {
		err = errors.Join(err, w.drain())
	}
	for _, w := range d.workers {
		<-w.ended
		w.leave()
	}
	return err
}

// stopWorkers ends all workers at once.
func (d *dev) stopWorkers() error {
	var err error
	for _, w := range d.workers {
		err = errors.Join(err, w.stop())
	}
	return err
}
