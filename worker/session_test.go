package worker_test

import (
	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// The sessions of both stores implement all roles of a worker.Session.
var (
	_ func(*queue.Session) worker.Session = worker.SessionOf

	_ worker.Claimer = (*storetest.MemorySession)(nil)
	_ worker.Reader  = (*storetest.MemorySession)(nil)
	_ worker.Writer  = (*storetest.MemorySession)(nil)
	_ worker.Lease   = (*storetest.MemorySession)(nil)
)
