package cli

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

func newEventsCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "events",
		Usage:     "show the story of a run: requests, attempts, failures and workers, by time",
		ArgsUsage: "RUN",
		Description: manual{
			about: `RUN is a number or @latest. The story says when the run was asked for, started and ended. The story names each attempt
and its worker, each failure, each request to the run, and each worker that was lost or took over. Tasks of a retried
run show only their latest generation. In JSON, kind is enqueued, run_started, taken_over, task_started,
attempt_started, attempt_ended, task_ended, asked or run_ended, or a kind of the run's own log: control, lost, skip,
replace, canceled, … Submitters see their own runs.`,
			examples: []string{
				"oarlock events 41",
				"oarlock events @latest -o json | jq -r '.[] | select(.kind == \"lost\") | .message'",
			},
			exits: []exitNote{
				{exitOK, "the story was printed"},
				deniedNote, usageNote,
				{exitNotFound, "the run does not exist, or it is not yours"},
				unreachableNote, settingsNote,
			},
		}.String(),
		Action: func(c *cli.Context) error { return runEvents(c.Context, e, c.Args().Slice()) },
	}
}

func runEvents(ctx context.Context, e *env, args []string) error {
	arg, err := oneRun("events", args)
	if err != nil {
		return err
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		id, err := arg.find(ctx, store)
		if err != nil {
			return err
		}
		story, err := readStory(ctx, store, id)
		if err != nil {
			return err
		}
		return e.say(e.storyAnswer(story))
	})
}

// readEvents returns all events of a run with an id above after, oldest first. After an error it returns the events that it has
// read until then, too.
func readEvents(ctx context.Context, store *queue.Store, id queue.RunID, after int64) ([]queue.Event, error) {
	var all []queue.Event
	for {
		page, err := store.Events(ctx, id, after)
		all = append(all, page...)
		if err != nil || len(page) < queue.MaxEvents {
			return all, err
		}
		after = page[len(page)-1].ID
	}
}

func readStory(ctx context.Context, store *queue.Store, id queue.RunID) ([]runview.StoryEvent, error) {
	run, err := store.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	tasks, err := store.Tasks(ctx, id)
	if err != nil {
		return nil, err
	}
	attempts, err := store.Attempts(ctx, id)
	if err != nil {
		return nil, err
	}
	controls, err := store.Controls(ctx, id)
	if err != nil {
		return nil, err
	}
	events, err := readEvents(ctx, store, id, 0)
	if err != nil {
		return nil, err
	}
	_, spec, err := getDAG(ctx, store, run.DAG, run.Version)
	if err != nil && diagnose(ctx, err).kind != denied { // a submitter may not read DAGs
		return nil, err
	}
	return runview.Story(run, tasks, attempts, controls, events, spec), nil
}

func (e *env) storyAnswer(story []runview.StoryEvent) answer {
	paint := e.stdoutPaint()
	a := answer{object: story, lines: []any{}}
	var rows [][]string
	for i := range story {
		event := &story[i]
		a.lines = append(a.lines, *event)
		at := event.At.Local().Format("2006-01-02 15:04:05.000Z07:00")
		rows = append(rows, []string{paint.Dim(at), event.About(), paint.eventText(event)})
	}
	a.text = term.AlignRows(rows)
	return a
}

func (p painter) eventText(e *runview.StoryEvent) string {
	text := runview.InlineText(e.Message)
	switch e.Kind {
	case "lost", "refused", "queue_timeout":
		return p.Bad(text)
	case "asked", "control", "canceled":
		return p.Warn(text)
	case "run_started", "run_ended", "enqueued":
		return p.Bold(text)
	}
	return text
}
