package web

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	storyTasks   = 1000 // of a run whose story is told with all of them
	storyEntries = 200  // of the run's own log, and of what was asked of it
)

// eventList is the story of a run, the newest first.
type eventList struct {
	Lines  []runview.StoryEvent
	Before string // where older ones are asked for; "": there are none
	Brief  bool   // starts and ends of tasks are left out: there are too many
}

// readEvents tells the story of a run with all its tasks if they are few. Of a run of many, or where the story goes on from another
// page, it tells what the run's own log and the requests say.
func (s *server) readEvents(ctx context.Context, p *runPage) (*eventList, error) {
	place, err := parseJournalPlace(p.Query.Before)
	if err != nil {
		return nil, err
	}
	journal, err := s.store.Journal(ctx, p.Query.ID, place, storyEntries)
	if err != nil {
		return nil, err
	}
	var events []queue.Event
	var controls []queue.Control
	for _, e := range slices.Backward(journal.Entries) {
		if e.Event != nil {
			events = append(events, *e.Event)
		} else {
			controls = append(controls, *e.Control)
		}
	}
	list := &eventList{Brief: p.taskCount() > storyTasks || p.Query.Before != "" || journal.Next != nil}
	var tasks []queue.Task
	var attempts []queue.Attempt
	if !list.Brief {
		if tasks, attempts, err = s.readStory(ctx, p); err != nil {
			return nil, err
		}
	}
	list.Lines = runview.Story(&p.Run.Run, tasks, attempts, controls, events, p.spec())
	slices.Reverse(list.Lines)
	if journal.Next != nil {
		list.Before = fmt.Sprintf("%d.%d", journal.Next.Event, journal.Next.Control)
	}
	return list, nil
}

func (s *server) readStory(ctx context.Context, p *runPage) (tasks []queue.Task, attempts []queue.Attempt, err error) {
	page, err := s.store.TaskPage(ctx, queue.TaskQuery{Run: p.Query.ID, Limit: storyTasks})
	if err != nil {
		return nil, nil, err
	}
	retried := 0 // of items, whose attempts the summaries do not have
	for i := range p.steps {
		t := &p.steps[i]
		attempts = append(attempts, t.Tries...)
		if t.Items > 0 {
			retried += t.Retried
		}
	}
	if retried > 0 {
		attempts, err = s.store.Attempts(ctx, p.Query.ID)
	}
	return page.Tasks, attempts, err
}

// taskCount is how many tasks the run has, items included.
func (p *runPage) taskCount() (n int) {
	for i := range p.steps {
		n += 1 + p.steps[i].Items
	}
	return n
}

func parseJournalPlace(text string) (place queue.JournalPlace, err error) {
	if text == "" {
		return place, nil
	}
	event, control, _ := strings.Cut(text, ".")
	if place.Event, err = strconv.ParseInt(event, 10, 64); err == nil {
		place.Control, err = strconv.ParseInt(control, 10, 64)
	}
	if err != nil {
		return place, badQuery("before", text)
	}
	return place, nil
}
