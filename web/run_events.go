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
	storyTasks   = 400 // and earlier attempts of steps, of a run whose story is told with all of them
	storyEntries = 200 // of the run's own log, and of what was asked of it
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
	list := &eventList{Brief: p.taskCount()+p.tryCount() > storyTasks || p.Query.Before != "" || journal.Next != nil}
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

// readStory is what the story is told from besides the run's own log. Summaries have the steps; items have to be read, and of their
// attempts the last is told.
func (s *server) readStory(ctx context.Context, p *runPage) (tasks []queue.Task, attempts []queue.Attempt, err error) {
	items := 0
	for i := range p.steps {
		t := &p.steps[i]
		tasks, attempts, items = append(tasks, t.Task), append(attempts, t.Tries...), items+t.Items
	}
	if items > 0 {
		page, err := s.store.TaskPage(ctx, queue.TaskQuery{Run: p.Query.ID, Limit: queue.MaxTasks})
		if err != nil {
			return nil, nil, err
		}
		tasks, p.known = page.Tasks, page.Tasks
	}
	return tasks, attempts, nil
}

// taskCount is how many tasks the run has, items included.
func (p *runPage) taskCount() (n int) {
	for i := range p.steps {
		n += 1 + p.steps[i].Items
	}
	return n
}

// tryCount is how many earlier attempts of steps are known.
func (p *runPage) tryCount() (n int) {
	for i := range p.steps {
		n += len(p.steps[i].Tries)
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
