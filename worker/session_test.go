package worker_test

import (
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/queue/queuetest"
	"github.com/oarlock-dev/oarlock/worker"
)

// Sessions of both stores are what a worker needs.
var (
	_ func(*queue.Session) worker.Session = worker.SessionOf

	_ worker.Reader = (*queuetest.MemorySession)(nil)
	_ worker.Writer = (*queuetest.MemorySession)(nil)
	_ worker.Lease  = (*queuetest.MemorySession)(nil)
)
