package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	maxBulk     = 1000 // runs in one form; also the default limit of the commands
	bulkAtATime = 8    // requests in flight
	bulkTime    = writeTimeout - 5*time.Second
)

// bulkVerb is a request that can be sent to many runs at once.
type bulkVerb struct {
	Verb  dagrun.Verb
	Title string
	// States are those of the runs to pick, if the filter of the page names none.
	States []string
}

var bulkVerbs = []bulkVerb{
	{dagrun.VerbRetry, "Retry what failed", []string{"failed"}},
	{dagrun.VerbPause, "Pause", runview.UnfinishedStates},
	{dagrun.VerbResume, "Resume", []string{"paused"}},
	{dagrun.VerbCancel, "Cancel", runview.UnfinishedStates},
}

// bulkData is the content of the page that sends one request to many runs: the runs before it is sent, their answers afterwards.
type bulkData struct {
	Verb    bulkVerb
	Runs    []bulkRun
	More    bool // more runs match the filter than Runs has
	Command string
	Done    bool
	Taken   int // number of runs that did not refuse, when Done
	May     bool
}

// bulkRun is one run, with its answer to the request.
type bulkRun struct {
	*queue.Run

	Answer string
	Took   bool // the run did not refuse
}

// bulk shows the runs that would get the request, before it is sent. These are the runs that the user marked, or the newest maxBulk
// that match the filter if the query has a value for all.
func (s *server) bulk(w http.ResponseWriter, r *http.Request) error {
	form := r.URL.Query()
	if len(form) == 0 {
		s.redirect(w, r, "/runs")
		return nil
	}
	verb, err := parseBulkVerb(form)
	if err != nil {
		return err
	}
	data := &bulkData{Verb: verb, May: s.rights(r.Context()).Submit}
	if form.Get("all") == "" {
		err = s.readChosen(r.Context(), data, form)
	} else {
		err = s.readMatching(r.Context(), data, filterOf(form))
	}
	if err != nil {
		return err
	}
	return s.render(w, r, "bulk.html", bulkPage(data))
}

func bulkPage(data *bulkData) page {
	return page{Title: fmt.Sprintf("%s %s", data.Verb.Title, runview.Count(len(data.Runs), "run")), Nav: "runs", Data: data, Crumbs: []crumb{{"Runs", "/runs"}, {data.Verb.Title, ""}}}
}

func parseBulkVerb(form url.Values) (bulkVerb, error) {
	i := slices.IndexFunc(bulkVerbs, func(v bulkVerb) bool { return v.Verb.String() == form.Get("verb") })
	if i < 0 {
		return bulkVerb{}, badQuery("verb", form.Get("verb"))
	}
	return bulkVerbs[i], nil
}

// readChosen appends the runs that the form names by number to data.Runs, the newest first. It leaves out runs that do not exist or
// that the login cannot see. It sets data.Command to the oarlock command that sends data.Verb to all the numbers of the form.
func (s *server) readChosen(ctx context.Context, data *bulkData, form url.Values) error {
	ids, err := chosenRuns(form)
	if err != nil {
		return err
	}
	data.Command = bulkCommand(data.Verb, ids)
	runs, err := s.store.Pick(ctx, ids)
	for i := range runs {
		data.Runs = append(data.Runs, bulkRun{Run: &runs[i]})
	}
	return err
}

// chosenRuns returns the run numbers of a form, each once, the newest first. It refuses a form with no number, with more than
// maxBulk, or with a text that is no run number.
func chosenRuns(form url.Values) ([]queue.RunID, error) {
	var ids []queue.RunID
	for _, text := range form["run"] {
		id, err := runNumber("run", text)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b queue.RunID) int { return int(b - a) })
	ids = slices.Compact(ids)
	switch {
	case len(ids) == 0:
		return nil, &refusal{status: http.StatusBadRequest, message: "No run is chosen.", hint: "Mark runs in the list, or take all runs that match the filter of the list."}
	case len(ids) > maxBulk:
		return nil, badFilter("at most %d runs at a time", maxBulk)
	}
	return ids, nil
}

// readMatching appends the newest runs that match f to data.Runs, at most maxBulk, and sets data.More if more runs match. If f has
// no states, it takes data.Verb.States; it ignores f.Before. It sets data.Command to the oarlock command that sends data.Verb to
// these runs: with the flags of f, or with the numbers of the runs if f has a Parent.
func (s *server) readMatching(ctx context.Context, data *bulkData, f runFilter) error {
	if len(f.States) == 0 {
		f.States = data.Verb.States
	}
	f.Before = ""
	filter, err := f.query(time.Now())
	if err != nil {
		return err
	}
	filter.Limit = maxBulk
	list, err := s.store.List(ctx, filter)
	if err != nil {
		return err
	}
	for i := range list.Runs {
		data.Runs = append(data.Runs, bulkRun{Run: &list.Runs[i]})
	}
	data.More = list.Next != 0
	if f.Parent == "" {
		data.Command = "oarlock " + data.Verb.Verb.String() + strings.TrimPrefix(f.command(), "oarlock list")
	} else {
		data.Command = bulkCommand(data.Verb, data.ids())
	}
	return nil
}

func (d *bulkData) ids() []queue.RunID {
	ids := make([]queue.RunID, len(d.Runs))
	for i := range d.Runs {
		ids[i] = d.Runs[i].ID
	}
	return ids
}

func bulkCommand(verb bulkVerb, ids []queue.RunID) string {
	command := "oarlock " + verb.Verb.String()
	for _, id := range ids {
		command += " " + strconv.FormatInt(int64(id), 10)
	}
	return command
}

// askMany sends the request to each run of a form, at most bulkAtATime at once, and shows the answer of each run. A run that has
// not answered within bulkTime of the start gets an error as its answer.
func (s *server) askMany(r *http.Request) (answer, error) {
	data := &bulkData{Done: true, May: true}
	var err error
	if data.Verb, err = parseBulkVerb(r.PostForm); err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), bulkTime)
	defer cancel()
	if err := s.readChosen(ctx, data, r.PostForm); err != nil {
		return answer{}, err
	}
	var asked sync.WaitGroup
	places := make(chan struct{}, bulkAtATime)
	for i := range data.Runs {
		asked.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			s.askOne(ctx, data.Verb.Verb, &data.Runs[i])
		})
	}
	asked.Wait()
	for i := range data.Runs {
		if data.Runs[i].Took {
			data.Taken++
		}
	}
	return answer{File: "bulk.html", Page: bulkPage(data), Status: http.StatusOK}, nil
}

func (s *server) askOne(ctx context.Context, verb dagrun.Verb, run *bulkRun) {
	ask := queue.Ask{Run: run.ID, Verb: verb}
	var problem string
	var err error
	if verb == dagrun.VerbCancel {
		problem, err = s.surprise(ctx, &ask, "")
	}
	var c queue.Control
	if err == nil && problem == "" {
		c, err = s.store.Control(ctx, ask)
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		run.Answer = "the run was not asked in time, or its answer did not come: look at the run"
	case err != nil:
		run.Answer = problemOf(err).message
	case problem != "":
		run.Answer = problem
	default:
		word, rest := runview.Outcome(&c)
		run.Took, run.Answer = c.Outcome != dagrun.Refused, word+rest
	}
}
