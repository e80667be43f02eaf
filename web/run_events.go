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
	storyTasks   = 400 // tasks and earlier attempts of steps; the page of a run with more leaves them out
	storyEntries = 200 // entries of the run's own log, and controls, on one page
)

// eventList is the events of a run, the newest first.
type eventList struct {
	Lines  []runview.StoryEvent
	Before string // position at which older events begin; "": there are none
	Brief  bool   // the starts and ends of tasks are left out, because there are too many
}

// readEvents reads one page of the run's events, the newest first: those older than p.Query.Before, or the newest if that is "". It
// includes the starts and ends of tasks if the run has at most storyTasks tasks and attempts, and all other events fit on this one
// page. If not, it leaves them out and sets Brief.
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

// readStory returns the tasks and earlier attempts for the events. The summaries of steps have both. If the run has items, it reads
// the tasks anew, items included, and also sets p.known to them; of items, there are no earlier attempts.
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

// taskCount returns the number of tasks of the run, items included.
func (p *runPage) taskCount() (n int) {
	for i := range p.steps {
		n += 1 + p.steps[i].Items
	}
	return n
}

// tryCount returns the number of earlier attempts that the summaries of all steps hold. Attempts of items are not counted.
func (p *runPage) tryCount() (n int) {
	for i := range p.steps {
		n += len(p.steps[i].Tries)
	}
	return n
}

// parseJournalPlace parses the position EVENT.CONTROL of older events; the zero place for "". It refuses any other text.
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
