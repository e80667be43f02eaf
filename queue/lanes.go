package queue

// lanes are those that a worker may serve.
type lanes struct{}
