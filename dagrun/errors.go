package dagrun

import "errors"

var (
	// ErrStale rejects an event that comes too late or twice. Nothing changed, and the caller goes on.
	ErrStale = errors.New("stale event")
	// ErrOver rejects every event after the end of the drive.
	ErrOver = errors.New("the drive is over")
	// ErrEvent rejects an event that makes no sense at this point, which is a mistake of the caller. Nothing changed.
	ErrEvent = errors.New("event out of place")
)
