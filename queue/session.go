package queue

import (
	"github.com/google/uuid"
)

// Session is a worker's side of runs in Postgres. See the package comment for what it owes.
type Session struct {
	store  *Store
	worker Worker
	held   *holdings

	journal *journal // writes what drives decide
	claims  *link    // Poll and what follows from it
	lease   *link    // Renew, which waits for nothing else
	chunks  *link    // AppendLogs
	peers   *observer
	lanes   *lanes
	beat    *heartbeat
	hearing *hearing
}

// ID of the worker.
func (s *Session) ID() uuid.UUID { return s.worker.ID }

// appName is how the connections of a worker call themselves, so that they can be found when it is lost.
func appName(worker uuid.UUID) string { return "oarlock/" + worker.String() }
