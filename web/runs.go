package web

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/web/draw"
)

// listLook is how many runs the database examines for one page of the list, where no index helps: for labels, queues, and the
// runs of one login among many.
const listLook = 50_000

// runsData is the content of the list of runs.
type runsData struct {
	Box     string // text of the filter box
	Problem string // error in the filter, with which no run is listed
	Chips   []chip
	Rows    []runRow
	Empty   emptyList
	Older   string // path of the next page; "": this is the last
	Newest  string // path of the first page; "": this is the first
	Command string
	Glance  *glance // nil: the login cannot see the cluster, or it could not be read
	Oldest  queue.Queue
	Slots   runview.Slots
	Verbs   []bulkVerb  // requests that can be sent to the runs; none if the login cannot send any
	Filter  [][2]string // the filter behind "all that match"
	Enqueue string      // path of the form that enqueues the filtered DAG, or of the list of DAGs; "": the login cannot enqueue
}

// chip is a link that adds a state to the filter, or removes it.
type chip struct {
	State, Path string
	On          bool
}

type runRow struct {
	*queue.Run

	Params, Why, By string
	Progress        progress
}

// emptyList explains why no run is listed, with the command to go on with.
type emptyList struct{ Text, Command string }

// runs shows one page of the runs that match the filter in the address, the newest first. With text from the filter box in the
// query, it redirects to the list with that filter. A wrong filter shows an empty list with the problem.
func (s *server) runs(w http.ResponseWriter, r *http.Request) error {
	f := filterOf(r.URL.Query())
	if q := r.URL.Query().Get("q"); q != "" {
		return s.search(w, r, f, q)
	}
	data, err := s.listRuns(r.Context(), f)
	status := http.StatusOK
	if wrong, ok := errors.AsType[*refusal](err); ok {
		data.Problem, status = wrong.message, wrong.status
	} else if err != nil {
		return err
	}
	return s.renderStatus(w, r, status, "runs.html", page{Title: "Runs", Nav: "runs", Data: data, Live: "/live" + f.path()})
}

// search parses the text of the filter box, and redirects to the list with that filter and the states of f. A word without a key
// leads to the run of that number, or sets the DAG. A wrong text shows an empty list with the problem.
func (s *server) search(w http.ResponseWriter, r *http.Request, f runFilter, text string) error {
	states := runFilter{States: f.States}
	free, err := states.read(text)
	if wrong, ok := errors.AsType[*refusal](err); ok {
		data := s.frameRuns(f)
		data.Box, data.Problem = runview.Printable(text), wrong.message
		return s.renderStatus(w, r, wrong.status, "runs.html", page{Title: "Runs", Nav: "runs", Data: data})
	}
	if id, err := runNumber("run", free); err == nil && id > 0 {
		s.redirect(w, r, runPath(id))
		return nil
	}
	if free != "" {
		states.DAG = free
	}
	s.redirect(w, r, states.path())
	return nil
}

func runPath(id queue.RunID) string { return fmt.Sprintf("/runs/%d", id) }

// frameRuns returns the content of the list without any run: the filter box, the chips and the command.
func (s *server) frameRuns(f runFilter) *runsData {
	d := &runsData{Box: f.box(), Command: f.command()}
	for _, state := range runStates {
		other := f
		other.Before = ""
		i := slices.Index(f.States, state)
		if i >= 0 {
			other.States = slices.Delete(slices.Clone(f.States), i, i+1)
		} else {
			other.States = append(slices.Clone(f.States), state)
		}
		d.Chips = append(d.Chips, chip{State: state, Path: other.path(), On: i >= 0})
	}
	return d
}

// listRuns reads one page of the list. It returns the content of frameRuns with every error, so that the page can show the problem
// if the error is a *refusal.
func (s *server) listRuns(ctx context.Context, f runFilter) (*runsData, error) {
	d := s.frameRuns(f)
	filter, err := f.query(time.Now())
	if err != nil {
		return d, err
	}
	filter.Look = listLook
	list, err := s.store.List(ctx, filter)
	if err != nil {
		return d, err
	}
	for i := range list.Runs {
		run := &list.Runs[i]
		d.Rows = append(d.Rows, runRow{Run: run, Params: runview.ParamText(run.Params), Why: whyOf(run), By: runview.InlineText(run.AskedBy()), Progress: progressOf(run)})
	}
	if list.Next != 0 {
		older := f
		older.Before = fmt.Sprint(list.Next)
		d.Older = older.path()
	}
	if f.Before != "" {
		newest := f
		newest.Before = ""
		d.Newest = newest.path()
	}
	if len(d.Rows) == 0 {
		if d.Empty, err = s.whyEmpty(ctx, f, list.Next != 0); err != nil {
			return d, err
		}
	}
	if rights := s.rights(ctx); rights.Submit {
		d.Verbs, d.Filter = bulkVerbs, f.parts()
		if f.DAG != "" {
			d.Enqueue = enqueuePath(f.DAG)
		} else if rights.Read {
			d.Enqueue = "/dags"
		}
	}
	if g, err := s.glances.get(ctx); err == nil && g.Seen {
		d.Glance, d.Oldest, d.Slots = &g, oldestOf(g.Queues), runview.SlotsOf(g.Workers)
	}
	return d, nil
}

// whyOf returns the note on a run, or else the schedule that made it; "" if it has neither.
func whyOf(r *queue.Run) string {
	if note := runview.RunNote(r); note != "" || r.Schedule == "" {
		return note
	}
	return "schedule " + runview.InlineText(r.Schedule)
}

// whyEmpty explains why no run is listed. more says that the database did not examine all runs.
func (s *server) whyEmpty(ctx context.Context, f runFilter, more bool) (emptyList, error) {
	if more {
		return emptyList{fmt.Sprintf("None of the %d runs that were looked through matches. Older runs can match.", listLook), f.command()}, nil
	}
	if f.DAG != "" {
		_, err := s.store.GetDAG(ctx, f.DAG, 0)
		if errors.Is(err, queue.ErrNotFound) {
			return emptyList{"There is no DAG " + runview.InlineText(f.DAG) + ", or you lack the right to see it.", "oarlock dag list"}, nil
		}
		if refused, ok := errors.AsType[*queue.Error](err); err != nil && (!ok || !denied[refused.Code]) {
			return emptyList{}, err
		}
	}
	switch {
	case f.path() == "/runs" && s.rights(ctx).OnlyApproves():
		return emptyList{"There is no run that you may see. The page Approvals lists the approvals that wait for you.", "oarlock approvals"}, nil
	case f.path() == "/runs":
		return emptyList{"There are no runs yet. A command makes a run, and so does an INSERT by your application.", "oarlock enqueue DAG"}, nil
	case f.Before != "":
		return emptyList{"No older run matches.", f.command()}, nil
	}
	return emptyList{"No run matches.", "oarlock list"}, nil
}

// oldestOf returns the queue that has a due run waiting for the longest time; the zero Queue if no run waits.
func oldestOf(queues []queue.Queue) (oldest queue.Queue) {
	for i := range queues {
		if queues[i].Queued > 0 && queues[i].Oldest >= oldest.Oldest {
			oldest = queues[i]
		}
	}
	return oldest
}

// progress is how many of a run's tasks have ended.
type progress struct {
	Done, Total int
	Bar         template.HTML
}

func progressOf(r *queue.Run) progress {
	c := r.Counts
	parts := []draw.Part{{Count: c.Succeeded, Class: "b-good"}, {Count: c.Failed + c.UpstreamFailed, Class: "b-bad"}, {Count: c.Skipped + c.Canceled + c.Replaced, Class: "b-faint"}}
	return progress{Done: c.Total - c.Open, Total: c.Total, Bar: draw.Progress(parts, c.Total)}
}
