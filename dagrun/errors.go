package dagrun

import "errors"

var (
	// ErrStale is the answer to an event that comes too late or twice: nothing changed, go on.
	ErrStale = errors.New("stale event")
	// ErrOver is the answer to any event after the drive ended.
	ErrOver = errors.New("the drive is over")
	// ErrEvent is the answer to an event that makes no sense here (a caller's mistake): nothing changed.
	ErrEvent = errors.New("event out of place")
)
