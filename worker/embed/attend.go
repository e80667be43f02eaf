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

// closeTimeout bounds how long answers in progress delay the end.
const closeTimeout = 2 * time.Second

// attend starts the helpers beside the worker: health checks if Config.Listen is set, notifications to systemd, and the watch over
// the guard. It returns an error if the server for health checks cannot start. The caller must call leave, which ends the helpers
// and waits for them.
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
			r.config.Log.Warn("systemd does not get the state of this worker", "err", err)
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
	return nil // clients that are still connected lose their answer
}
