package queue

// observer counts how long other workers have been silent.
type observer struct{}
