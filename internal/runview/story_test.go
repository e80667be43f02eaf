package runview

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

func TestStory_TellsALossOnce(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	story := Story(&queue.Run{ID: 1}, nil, []queue.Attempt{
		{Step: "a", Attempt: 1, State: "failed", FailureKind: "lost", Reason: "lost: driver lost", FinishedAt: at},
		{Step: "a", Item: "x", Attempt: 1, State: "failed", FailureKind: "lost", Reason: "lost: driver lost", FinishedAt: at},
		{Step: "a", Attempt: 2, State: "failed", FailureKind: "exit", Reason: "exit 1", FinishedAt: at},
	}, nil, []queue.Event{{At: at, Kind: "lost", Step: "a", Message: "attempt 1 lost: driver lost", Epoch: 2}, {At: at, Kind: "skip", Step: "a", Message: "attempt 2 skipped"}}, nil)
	var got []string
	for _, e := range story {
		got = append(got, e.About()+" "+e.Message)
	}
	want := []string{"a/x attempt 1 failed: lost: driver lost", "a attempt 2 failed: exit 1", "a attempt 1 lost: driver lost", "a attempt 2 skipped"}
	if !slices.Equal(got, want) {
		t.Errorf("the story is %q, want %q", got, want)
	}
}

func TestStory_TellsOfAChildOnce(t *testing.T) {
	t.Parallel()
	story := Story(&queue.Run{ID: 1}, []queue.Task{{Step: "each", Item: "8", State: "succeeded", Reason: "ran", Attempt: 1, StartedAt: noon(1), FinishedAt: noon(3)}}, nil,
		[]queue.Control{
			{Verb: dagrun.VerbChildEnded, Step: "each", Item: "8", By: "run 13", At: noon(2), DecidedAt: noon(3), Outcome: dagrun.Applied},
			{Verb: dagrun.VerbChildEnded, Step: "each", Item: "9", By: "run 14", At: noon(2)},
		}, nil, nil)
	var got []string
	for _, e := range story {
		got = append(got, e.About()+" "+e.Message)
	}
	want := []string{"each/8 started", "each/9 child_ended asked for by run 14, not decided yet", "each/8 succeeded by run 13"}
	if !slices.Equal(got, want) {
		t.Errorf("the story is %q, want %q", got, want)
	}
}

func TestStory_KeepsCauseBeforeEffect(t *testing.T) {
	t.Parallel()
	spec := &dagspec.Spec{Steps: []dagspec.Step{{ID: "a"}, {ID: "b"}}}
	run := queue.Run{
		ID: 1, DAG: "etl", Version: 3, SubmittedBy: "app", State: "failed", Reason: "step b failed: exit 1", Generation: 1,
		CreatedAt: noon(0), StartedAt: noon(1), FinishedAt: noon(3),
	}
	tasks := []queue.Task{
		{Step: "b", State: "failed", Reason: "exit 1", Attempt: 2, StartedAt: noon(2), FinishedAt: noon(3)},
		{Step: "a", State: "succeeded", Reason: "ran", Attempt: 1, StartedAt: noon(1), FinishedAt: noon(2)},
		{Step: "c", State: "pending"},
	}
	var got []string
	for _, e := range Story(&run, tasks, nil, []queue.Control{{Verb: dagrun.VerbPause, By: "ana", At: noon(2)}}, nil, spec) {
		got = append(got, e.About()+" "+e.Message)
	}
	want := []string{
		"run asked for by app: etl version 3", "run started", "a started", "run pause asked for by ana, not decided yet", "a succeeded",
		"b started", "b failed in attempt 2: exit 1", "run failed: step b failed: exit 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("- want, + got\n%s", diff)
	}
}

// storyCase is the history of a run, and the story that it makes.
type storyCase struct {
	tasks    []queue.Task
	attempts []queue.Attempt
	events   []queue.Event
	want     []string
}

func (c *storyCase) check(t *testing.T) {
	t.Parallel()
	var got []string
	for _, e := range Story(&queue.Run{ID: 1}, c.tasks, c.attempts, nil, c.events, nil) {
		got = append(got, e.About()+" "+e.Message)
	}
	if diff := cmp.Diff(c.want, got); diff != "" {
		t.Errorf("- want, + got\n%s", diff)
	}
}

// The story names the worker that began each attempt.
func TestStory_NamesTheWorkersOfAttempts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]storyCase{
		"Retry": {
			[]queue.Task{{Step: "a", State: "succeeded", Attempt: 3, Worker: "w2", StartedAt: noon(1), AttemptAt: noon(6), FinishedAt: noon(7)}},
			[]queue.Attempt{
				{Step: "a", Attempt: 1, State: "failed", Worker: "w1", StartedAt: noon(1), FinishedAt: noon(2)},
				{Step: "a", Attempt: 2, State: "failed", Worker: "w1", StartedAt: noon(4), FinishedAt: noon(4)},
			},
			nil,
			[]string{"a started on w1", "a attempt 1 failed", "a attempt 2 started on w1", "a attempt 2 failed", "a attempt 3 started on w2", "a succeeded in attempt 3"},
		},
		"Retrying": {
			[]queue.Task{{Step: "a", State: "retrying", Attempt: 1, Worker: "w1", StartedAt: noon(1)}},
			[]queue.Attempt{{Step: "a", Attempt: 1, State: "failed", Worker: "w1", StartedAt: noon(1), FinishedAt: noon(2)}},
			nil,
			[]string{"a started on w1", "a attempt 1 failed"},
		},
		"RetriedByHand": { // an attempt that began before belongs to an earlier generation
			[]queue.Task{{Step: "a", State: "running", Attempt: 2, Worker: "w2", StartedAt: noon(5), AttemptAt: noon(5)}},
			[]queue.Attempt{{Step: "a", Attempt: 1, State: "failed", Worker: "w1", StartedAt: noon(1), FinishedAt: noon(2)}},
			nil,
			[]string{"a attempt 1 started on w1", "a attempt 1 failed", "a attempt 2 started on w2"},
		},
	} {
		t.Run(name, c.check)
	}
}

// The story of a takeover names both workers.
func TestStory_NamesTheWorkersOfATakeover(t *testing.T) {
	t.Parallel()
	lost := queue.Event{At: noon(3), Kind: "lost", Worker: "w1", Epoch: 1, Message: "worker w1 was lost: queued again"}
	for name, c := range map[string]storyCase{
		"TakeoverOfATask": {
			[]queue.Task{{Step: "a", State: "running", Attempt: 2, Worker: "w3", StartedAt: noon(1), AttemptAt: noon(5)}},
			[]queue.Attempt{{Step: "a", Attempt: 1, State: "failed", Worker: "w1", StartedAt: noon(1), FinishedAt: noon(5)}},
			[]queue.Event{lost, {At: noon(5), Kind: "lost", Step: "a", Worker: "w3", Epoch: 2, Message: "attempt 1 lost: driver lost"}},
			[]string{
				"a started on w1", "run worker w1 was lost: queued again", "run w3 took over from w1", "a attempt 1 lost: driver lost", "a attempt 2 started on w3",
			},
		},
		"TakeoverBetweenTasks": {
			[]queue.Task{
				{Step: "a", State: "succeeded", Attempt: 1, Worker: "w1", StartedAt: noon(1), AttemptAt: noon(1), FinishedAt: noon(2)},
				{Step: "b", State: "running", Attempt: 1, Worker: "w3", StartedAt: noon(5), AttemptAt: noon(5)},
			},
			nil,
			[]queue.Event{lost},
			[]string{"a started on w1", "a succeeded", "run worker w1 was lost: queued again", "run w3 took over from w1", "b started on w3"},
		},
		"TheSameWorker": {
			[]queue.Task{{Step: "b", State: "running", Attempt: 1, Worker: "w1", StartedAt: noon(5), AttemptAt: noon(5)}},
			nil,
			[]queue.Event{lost},
			[]string{"run worker w1 was lost: queued again", "run w1 took over again", "b started on w1"},
		},
		"NotYetTakenOver": {nil, nil, []queue.Event{lost}, []string{"run worker w1 was lost: queued again"}},
		"LostTwice": {
			[]queue.Task{{Step: "b", State: "running", Attempt: 1, Worker: "w5", StartedAt: noon(6), AttemptAt: noon(6)}},
			nil,
			[]queue.Event{lost, {At: noon(4), Kind: "lost", Worker: "w2", Epoch: 2, Message: "worker w2 was lost: queued again"}},
			[]string{"run worker w1 was lost: queued again", "run w2 took over from w1", "run worker w2 was lost: queued again", "run w5 took over from w2", "b started on w5"},
		},
	} {
		t.Run(name, c.check)
	}
}

// The story of a page that may not read the DAG lacks the facts that only the DAG's file has.
func TestStory_NeedsNoSpec(t *testing.T) {
	t.Parallel()
	tasks := []queue.Task{{Step: "confirm", Kind: "step", State: "waiting", Attempt: 1, StartedAt: noon(1)}}
	if story := Story(&queue.Run{ID: 1}, tasks, nil, nil, nil, nil); len(story) != 1 || story[0].Message != "started" {
		t.Errorf("the story is %+v", story)
	}
}
