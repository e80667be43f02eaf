package queue

// heartbeat keeps until when a lease holds.
type heartbeat struct{}
