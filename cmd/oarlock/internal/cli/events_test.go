package cli

import (
	"slices"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

func TestStory_TellsALossOnce(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	s := &story{run: 1}
	s.tell(&queue.Run{}, nil, []queue.Attempt{
		{Step: "a", Attempt: 1, State: "failed", FailureKind: "lost", Reason: "lost: driver lost", FinishedAt: at},
		{Step: "a", Item: "x", Attempt: 1, State: "failed", FailureKind: "lost", Reason: "lost: driver lost", FinishedAt: at},
		{Step: "a", Attempt: 2, State: "failed", FailureKind: "exit", Reason: "exit 1", FinishedAt: at},
	}, nil, []queue.Event{{At: at, Kind: "lost", Step: "a", Message: "attempt 1 lost: driver lost", Epoch: 2}})
	var got []string
	for _, e := range s.events {
		got = append(got, e.about()+" "+e.Message)
	}
	want := []string{"a/x attempt 1 failed: lost: driver lost", "a attempt 2 failed: exit 1", "a attempt 1 lost: driver lost"}
	if !slices.Equal(got, want) {
		t.Errorf("the story is %q, want %q", got, want)
	}
}
