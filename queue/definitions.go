package queue

// definitions are DAG versions, compiled.
type definitions struct{}

func newDefinitions() *definitions { return &definitions{} }
