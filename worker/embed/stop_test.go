package embed

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
)

// lines collects the lines of a log.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func TestGuard_ThatHangsUpIsGoneOnlyOnceItDidNotKill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := make(lines, 10)
		r := &Rig{config: Config{Log: slog.New(slog.NewTextHandler(log, nil))}, stopping: newStopping()}
		gone, over := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(over)
			r.watchGuard(context.Background(), gone)
		}()
		close(gone)
		synctest.Wait()
		select {
		case <-r.stopping.asked:
		default:
			t.Error("the worker goes on without a guard")
		}
		if len(log) > 0 {
			t.Errorf("a guard that is about to kill is taken for dead: %s", <-log)
		}
		<-over
		if len(log) == 0 || !strings.Contains(<-log, "the guard of this worker is gone") {
			t.Error("nothing is said of a guard that is gone")
		}
	})
}
