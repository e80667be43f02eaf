package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/sql"
)

var journalSQL = sql.Named("queue/journal")

// JournalEntry is an entry of a run's history: an event or a control, the other is nil.
type JournalEntry struct {
	Event   *Event
	Control *Control
}

// At is when it happened, or was asked.
func (e JournalEntry) At() time.Time {
	if e.Event != nil {
		return e.Event.At
	}
	return e.Control.At
}

// JournalPlace is where a page of a run's history ends: before this event and this control. Zero is the newest end.
type JournalPlace struct {
	Event, Control int64
}

// JournalPage is a part of a run's history, newest first.
type JournalPage struct {
	Entries []JournalEntry
	Next    *JournalPlace // Journal's before of the next page; nil: there is none
}

// Journal reads what happened to a run and what was asked of it before a place, newest first: 1 to 1000 entries, 0 for 100.
// Events are in the order in which they were recorded, and so are controls; between the two, time decides.
func (s *Store) Journal(ctx context.Context, run RunID, before JournalPlace, limit int) (JournalPage, error) {
	const op = "read the history of a run"
	if limit == 0 {
		limit = DefaultTasks
	}
	if limit < 1 || limit > MaxEvents {
		return JournalPage{}, said(op, fmt.Errorf("a page has 1 to %d entries, not %d", MaxEvents, limit))
	}
	rows, err := list(ctx, s, journalSQL, pgx.StrictNamedArgs{
		"run": run, "event": given(before.Event), "control": given(before.Control), "rows": limit + 1,
	}, scanJournalEntry)
	if err == nil && len(rows) == 0 {
		err = noSuchRun(run, pgx.ErrNoRows)
	}
	if err != nil {
		return JournalPage{}, said(op, err)
	}
	return journalPage(run, rows, before, limit), nil
}

// journalPage takes the newer one of the next event and the next control until the page is full.
func journalPage(run RunID, rows []JournalEntry, before JournalPlace, limit int) (page JournalPage) {
	var events, controls []JournalEntry
	for _, row := range rows {
		switch {
		case row.Event != nil:
			events = append(events, row)
		case row.Control != nil:
			row.Control.Run = run
			controls = append(controls, row)
		}
	}
	for len(events)+len(controls) > 0 {
		if len(page.Entries) == limit {
			page.Next = &before
			return page
		}
		if len(controls) == 0 || len(events) > 0 && !events[0].Event.At.Before(controls[0].Control.At) {
			before.Event = events[0].Event.ID
			page.Entries, events = append(page.Entries, events[0]), events[1:]
			continue
		}
		before.Control = controls[0].Control.ID
		page.Entries, controls = append(page.Entries, controls[0]), controls[1:]
	}
	return page
}

func scanJournalEntry(row pgx.CollectableRow) (entry JournalEntry, err error) {
	var e Event
	var c Control
	var message string
	var args json.RawMessage
	err = row.Scan(&e.ID, &c.ID, (*zeronull.Timestamptz)(&e.At), &e.Kind, (*zeronull.Text)(&e.By), (*zeronull.Text)(&e.Worker), &e.Epoch,
		(*zeronull.Text)(&e.Step), (*zeronull.Text)(&e.Item), (*zeronull.Text)(&message), &args,
		(*zeronull.Timestamptz)(&c.DecidedAt), (*zeronull.Text)(&c.Outcome), (*zeronull.Text)(&c.State))
	switch {
	case err != nil:
	case e.ID > 0:
		e.Message = message
		entry.Event = &e
	case c.ID > 0:
		c.At, c.By, c.Step, c.Item, c.Message, c.Args = e.At, e.By, e.Step, e.Item, message, args
		c.Verb, err = dagrun.ParseVerb(e.Kind)
		entry.Control = &c
	}
	return entry, err
}
