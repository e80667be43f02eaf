package embed

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/health"
	"github.com/oarlock-dev/oarlock/worker/notify"
)

// closeTimeout bounds how long answers that are under way hold up the end.
const closeTimeout = 2 * time.Second

// attend begins what goes on beside the worker: answers about its health, signs of life for systemd, and an eye on the
// guard. What it returns ends all that.
func (r *Rig) attend(w *worker.Worker) (leave func() error, err error) {
	r.metrics.Watch(w.Status)
	var server *health.Server
	if r.config.Listen != "" {
		if server, err = health.New(health.Config{Addr: r.config.Listen, Status: w.Status, Metrics: r.metrics.Handler()}); err != nil {
			return nil, err
		}
		r.config.Log.Info("answering health checks", "address", server.Addr())
	}
	ctx, cancel := context.WithCancel(context.Background())
	var beside sync.WaitGroup
	beside.Go(func() { r.watchGuard(ctx, r.config.Link.Gone()) })
	beside.Go(func() {
		if err := notify.Run(ctx, notify.Config{Environment: notify.FromEnv(), Status: w.Status, Log: r.config.Log}); err != nil {
			r.config.Log.Warn("systemd does not hear of this worker", "err", err)
		}
	})
	return func() error {
		cancel()
		beside.Wait()
		return closeServer(server)
	}, nil
}

func closeServer(server *health.Server) error {
	if server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := server.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil // whoever holds on loses the answer
}
