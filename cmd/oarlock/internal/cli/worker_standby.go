package cli

import (
	"context"
	"log/slog"
	"time"

	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/health"
	"github.com/oarlock-dev/oarlock/worker/notify"
)

// standbyClose bounds how long answers under way hold up the driver process, which is to listen at the same address.
const standbyClose = 200 * time.Millisecond

// standby speaks for a worker while its guard waits for another one: there is no driver process yet that could.
type standby struct {
	listen  string // where health checks are answered; "": nowhere
	systemd string // its socket; "": there is none
	log     *slog.Logger
	server  *health.Server
}

// begin has the worker say why it waits, to systemd and at /readyz.
func (s *standby) begin(why string) {
	s.tell("STATUS=starting, " + why)
	if s.listen == "" {
		return
	}
	status := worker.Status{Phase: worker.Starting, Since: time.Now(), Unfit: []string{why}}
	server, err := health.New(health.Config{Addr: s.listen, Status: func() worker.Status { return status }})
	if err != nil {
		s.log.Info("no health check is answered while this worker waits", "err", err) // perhaps the other one has the address
		return
	}
	s.server = server
}

// end frees the address. It does nothing where nothing began.
func (s *standby) end() {
	if s.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), standbyClose)
	defer cancel()
	_ = s.server.Close(ctx) // a client that is still connected loses its answer
	s.server = nil
}

func (s *standby) tell(line string) {
	if err := notify.Tell(s.systemd, line); err != nil {
		s.log.Warn("systemd does not hear of this worker", "err", err)
	}
}
