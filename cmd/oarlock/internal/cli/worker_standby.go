package cli

import (
	"context"
	"log/slog"
	"time"

	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/health"
	"github.com/oarlock-dev/oarlock/worker/notify"
)

// standbyClose bounds how long pending answers delay the driver process, which listens at the same address next.
const standbyClose = 200 * time.Millisecond

// standby answers for a worker while its guard waits for another worker of the same name, since there is no driver process
// yet.
type standby struct {
	listen  string // address of the health checks; "": none
	systemd string // systemd's socket; "": none
	log     *slog.Logger
	server  *health.Server
}

// begin reports why the worker waits, to systemd and at /readyz.
func (s *standby) begin(why string) {
	s.tell("STATUS=starting, " + why)
	if s.listen == "" {
		return
	}
	status := worker.Status{Phase: worker.Starting, Since: time.Now(), Unfit: []string{why}}
	server, err := health.New(health.Config{Addr: s.listen, Status: func() worker.Status { return status }})
	if err != nil {
		s.log.Info("no health check is answered while this worker waits", "err", err) // the other worker may have the address
		return
	}
	s.server = server
}

// end frees the address. It does nothing if begin did not listen.
func (s *standby) end() {
	if s.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), standbyClose)
	defer cancel()
	_ = s.server.Close(ctx) // a client that is still connected gets no answer
	s.server = nil
}

func (s *standby) tell(line string) {
	if err := notify.Tell(s.systemd, line); err != nil {
		s.log.Warn("systemd does not hear of this worker", "err", err)
	}
}
