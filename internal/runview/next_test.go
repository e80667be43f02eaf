package runview

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// nextCase is a run, and the commands that a person gets for it.
type nextCase struct {
	run    queue.Run
	tasks  []queue.Task
	around Around
	want   []Command
}

func (c *nextCase) check(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(c.want, Next(&c.run, c.tasks, c.around)); diff != "" {
		t.Errorf("- want, + got\n%s", diff)
	}
}

func TestNext_NamesCommandAndReason(t *testing.T) {
	t.Parallel()
	over := queue.Run{ID: 41, Version: 2, FinishedAt: noon(9)}
	failed, canceled, local := over, over, over
	failed.State, canceled.State, local.State, local.Labels = "failed", "canceled", "failed", map[string]string{HereLabel: HereValue}
	invalid := failed
	invalid.Reason = "invalid: param \"free\": must be a duration, not \"soon\"\nparam \"n\": is required"
	for name, c := range map[string]nextCase{
		"Failed": {failed, []queue.Task{
			{Step: "load", Kind: "step", State: "failed", Attempt: 3},
			{Step: "resize", Kind: "foreach", State: "failed", Attempt: 1}, // has no log
			{Step: "resize", Item: "a b", Kind: "foreach", State: "failed", Attempt: 1},
			{Step: "report", Kind: "step", State: "failed"}, // it never began
			{Step: "release", Kind: "step", State: "failed", FailureKind: "rejected", Attempt: 1},
		}, Around{}, []Command{
			{"oarlock logs 41 load", "See what load wrote"},
			{"oarlock logs 41 'resize/a b'", "See what resize/a b wrote"},
			{"oarlock retry 41", "Run the failed steps again"},
		}},
		"Invalid":  {invalid, nil, Around{}, []Command{{"oarlock retry 41 -p free=", "Make a new run with another value"}}},
		"Canceled": {canceled, nil, Around{}, []Command{{"oarlock retry 41", "Run the canceled steps again"}}},
		"NewerVersion": {failed, nil, Around{Current: 3}, []Command{
			{"oarlock retry 41", "Run the failed steps again"},
			{"oarlock retry 41 --latest", "Make a new run of version 3; retry without --latest repeats version 2"},
		}},
		"SameVersion": {failed, nil, Around{Current: 2}, []Command{{"oarlock retry 41", "Run the failed steps again"}}},
		"Here":        {local, nil, Around{}, []Command{{"oarlock retry 41 && oarlock worker --only 41", "Run the failed steps again, here"}}},
		"FailedUnderWay": {queue.Run{ID: 41, State: "running"}, []queue.Task{
			{Step: "@init", Kind: "handler", State: "failed", Attempt: 1},
			{Step: "resize", Item: "a b", Kind: "foreach", State: "failed", Attempt: 1},
			{Step: "load", Kind: "step", State: "failed", Attempt: 3},
		}, Around{Watched: true}, []Command{
			{"oarlock logs 41 @init", "See what @init wrote"},
			{"oarlock logs 41 'resize/a b'", "See what resize/a b wrote"},
			{"oarlock logs 41 load", "See what load wrote"},
			{"oarlock retry 41 --step 'resize/a b'", "Repeat resize/a b in this run"},
		}},
		"PausedStep": {queue.Run{ID: 41, State: "waiting"}, []queue.Task{
			{Step: "load", Kind: "step", State: "paused", Attempt: 1}, {Step: "resize", Item: "a b", Kind: "foreach", State: "paused"},
		}, Around{}, []Command{
			{"oarlock resume 41 load", "Let load go on"},
			{"oarlock resume 41 'resize/a b'", "Let resize/a b go on"},
			{"oarlock status 41 -w", "Watch the run end"},
		}},
		"PausedRun": {queue.Run{ID: 41, State: "paused"}, []queue.Task{{Step: "load", State: "paused"}}, Around{Watched: true}, []Command{
			{"oarlock resume 41", "Let the run go on"},
		}},
		"Approval": {queue.Run{ID: 41, State: "waiting"}, []queue.Task{
			{Step: "confirm", State: "waiting", Approval: &queue.Question{MayDecide: true, Inputs: []dagspec.Param{{Name: "ticket", Type: "string", Required: true}}}},
			{Step: "other", State: "waiting", Approval: &queue.Question{}},
		}, Around{Watched: true}, []Command{{"oarlock approve 41 confirm -i ticket=", "Approve confirm"}}},
		"Part": {failed, []queue.Task{{Step: "load", Kind: "step", State: "failed", Attempt: 3}, {Step: "hold", Kind: "step", State: "paused"}}, Around{Current: 3, Part: true}, nil},
		"PartWaiting": {
			queue.Run{ID: 41, State: "waiting"},
			[]queue.Task{{Step: "confirm", State: "waiting", Approval: &queue.Question{MayDecide: true}}},
			Around{Part: true},
			[]Command{{"oarlock approve 41 confirm", "Approve confirm"}},
		},
		"Succeeded": {queue.Run{ID: 41, State: "succeeded", FinishedAt: noon(9)}, nil, Around{}, nil},
	} {
		t.Run(name, c.check)
	}
}

func TestNext_ClearsTheWayOfAQueuedRun(t *testing.T) {
	t.Parallel()
	here := map[string]string{HereLabel: HereValue}
	unserved := queue.Obstacles{Unserved: true, Labels: []string{"gpu=yes", "zone=a b"}}
	for name, c := range map[string]nextCase{
		"QueuedHere":        {queue.Run{ID: 41, State: "queued", Labels: here}, nil, Around{}, []Command{{"oarlock worker --only 41", "Execute the run here"}}},
		"QueuedHereWatched": {queue.Run{ID: 41, State: "queued", Labels: here}, nil, Around{Watched: true}, nil},
		"Paused": {queue.Run{ID: 41, State: "queued", DAG: "etl", Queue: "slow"}, nil, Around{Admin: true, Obstacles: queue.Obstacles{QueuePaused: true, DAGPaused: true}}, []Command{
			{"oarlock queues resume slow", "Let queue slow start runs again"},
			{"oarlock dag resume etl", "Let etl start runs again"},
			{"oarlock status 41 -w", "Watch the run end"},
		}},
		"PausedByOthers": {queue.Run{ID: 41, State: "queued"}, nil, Around{Watched: true, Obstacles: queue.Obstacles{QueuePaused: true, DAGPaused: true}}, nil},
		"PausedTooLate": {
			queue.Run{ID: 41, State: "queued", StartedAt: noon(1)}, nil, Around{Watched: true, Admin: true, Obstacles: queue.Obstacles{QueuePaused: true, DAGPaused: true}}, nil,
		},
		"Full": {queue.Run{ID: 41, State: "queued", DAG: "etl", Queue: "slow"}, nil, Around{Watched: true, Admin: true, Obstacles: queue.Obstacles{QueueFull: 2, DAGFull: true}}, []Command{
			{"oarlock list --queue slow --state running", "See the running runs of queue slow"},
			{"oarlock queues set slow --max-running 3", "Let queue slow run more runs at once"},
			{"oarlock list --dag etl --state running --state waiting --state paused", "See the active runs of etl"},
		}},
		"FullForReaders": {queue.Run{ID: 41, State: "queued", Queue: "slow"}, nil, Around{Watched: true, Obstacles: queue.Obstacles{QueueFull: 2}}, []Command{
			{"oarlock list --queue slow --state running", "See the running runs of queue slow"},
		}},
		"Unserved": {queue.Run{ID: 41, State: "queued", Queue: "slow"}, nil, Around{Watched: true, Obstacles: unserved}, []Command{
			{"oarlock worker --queue slow --label gpu=yes --label 'zone=a b'", "Start a worker that takes the run"},
		}},
		"UnservedCopy": {queue.Run{ID: 41, State: "queued"}, nil, Around{Watched: true, IsCopy: true, Obstacles: unserved}, nil},
		"UnservedHere": {queue.Run{ID: 41, State: "queued", Labels: here}, nil, Around{Watched: true, Obstacles: unserved}, nil},
		"UnservedOnce": {queue.Run{ID: 41, State: "running"}, nil, Around{Watched: true, Obstacles: unserved}, nil},
	} {
		t.Run(name, c.check)
	}
}

func TestNext_IsShort(t *testing.T) {
	t.Parallel()
	var tasks []queue.Task
	for i := range 100 {
		tasks = append(tasks,
			queue.Task{Step: fmt.Sprint("a", i), State: "waiting", Approval: &queue.Question{MayDecide: true}},
			queue.Task{Step: fmt.Sprint("f", i), Kind: "step", State: "failed", Attempt: 1})
	}
	if got, most := len(Next(&queue.Run{State: "running"}, tasks, Around{})), approvalHintsMax+taskHintsMax+2; got > most {
		t.Errorf("it offers %d commands, more than %d", got, most)
	}
}
