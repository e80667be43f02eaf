package queue

import (
	"errors"
	"testing"
)

func TestLost_IsTheEndOnce(t *testing.T) {
	t.Parallel()
	told := 0
	store := &Store{meter: Meter{FenceLost: func() { told++ }}}
	s := &Session{store: store, held: newClaimSet()}
	for range 3 {
		if err := s.lost(); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("got %v", err)
		}
	}
	closed := &Session{store: store, held: newClaimSet()}
	closed.end.set(ErrClosed)
	_ = closed.lost()
	if told != 1 {
		t.Errorf("told %d times of one session that was lost and one that was closed before", told)
	}
}
