package queue_test

import (
	"slices"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

func TestPace_AHungryWorkerPollsCloselyForAWhile(t *testing.T) {
	t.Parallel()
	var p queue.Pace
	next := func(polled queue.Polled) int { return int(p.After(polled) / time.Millisecond) }
	hungry := queue.Polled{Hungry: true}
	var got []int
	for range 10 {
		got = append(got, next(hungry))
	}
	if want := []int{5, 20, 40, 80, 80, 80, 80, 80, 2000, 2000}; !slices.Equal(got, want) {
		t.Errorf("pauses %v, want %v", got, want)
	}
	if got := next(queue.Polled{Hungry: true, Claims: []*queue.Claim{nil}}); got != 5 {
		t.Errorf("after a poll that brought something: %d", got)
	}
	p.Hear()
	if got := next(hungry); got != 5 {
		t.Errorf("after a notification: %d", got)
	}
	if got := next(queue.Polled{}); got != 2000 {
		t.Errorf("full: %d", got)
	}
}
