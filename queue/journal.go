package queue

// journal writes what drives decide.
type journal struct{}
