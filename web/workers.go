package web

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/web/draw"
)

const (
	workersShown = 200 // the active ones come first
	heldShown    = 50  // on a worker's page, runs that it lists
)

// workerRow is a worker in the list and on its page.
type workerRow struct {
	queue.WorkerInfo

	Path   string
	Word   string // what the worker does, in one word
	Class  string // CSS class of a run state that looks the same
	Labels string
	Bar    template.HTML // slots in use
}

// AtWork reports whether the database has no end of the worker on record. A worker that was killed counts as at work until it is
// found lost.
func (w *workerRow) AtWork() bool { return w.EndedAt.IsZero() }

// MayDrain reports whether a drain would change the worker: it is live, and was not asked to drain.
func (w *workerRow) MayDrain() bool {
	return w.AtWork() && w.State == queue.WorkerLive && w.Desired == queue.WorkerLive
}

func workerRowOf(w *queue.WorkerInfo) workerRow {
	row := workerRow{
		WorkerInfo: *w, Path: "/workers/" + w.ID.String(), Word: runview.WorkerWord(w), Labels: runview.LabelText(w.Labels),
		Bar: draw.Progress([]draw.Part{{Count: min(w.Busy, w.Slots), Class: "b-active"}}, w.Slots),
	}
	switch {
	case w.Silent(), w.Quiet == nil && w.Unfit != "", w.State == queue.WorkerLost:
		row.Class = "failed"
	case w.State == queue.WorkerGone:
		row.Class = "canceled"
	case row.Word == string(queue.WorkerLive):
		row.Class = "succeeded"
	default:
		row.Class = "waiting"
	}
	return row
}

type workersData struct {
	Rows    []workerRow
	More    bool
	Command string
}

// workers lists up to workersShown workers, the active ones first.
func (s *server) workers(w http.ResponseWriter, r *http.Request) error {
	data, err := s.readWorkers(r.Context())
	if err != nil {
		return err
	}
	return s.render(w, r, "workers.html", page{Title: "Workers", Nav: "workers", Data: data, Live: "/live/workers"})
}

func (s *server) readWorkers(ctx context.Context) (*workersData, error) {
	g, err := s.fleet(ctx)
	if err != nil {
		return nil, err
	}
	data := &workersData{Command: "oarlock workers --all", More: len(g.Workers) > workersShown}
	for i := range g.Workers[:min(len(g.Workers), workersShown)] {
		data.Rows = append(data.Rows, workerRowOf(&g.Workers[i]))
	}
	return data, nil
}

func (s *server) liveWorkers(w http.ResponseWriter, r *http.Request) error {
	return s.stream(w, r, s.listSource("workers", "workers.html", []string{"workers#list"}, func(ctx context.Context) (any, error) {
		return s.readWorkers(ctx)
	}))
}

// workerData is the content of the page of a worker.
type workerData struct {
	workerRow

	Serves  []queueLink // queues that it claims from; none: all
	Same    []workerRow // other workers of this name
	Held    []fleetRun  // runs that it drives, the oldest first
	Rights  queue.Rights
	Command string // the command that drains it
	Note    string // of a quiet worker: since when, and what happens to its runs; "": it is not quiet
}

// queueLink is the name of a queue, with a link. The queue may not exist: a worker can serve any name.
type queueLink struct{ Name, Path string }

func (s *server) worker(w http.ResponseWriter, r *http.Request) error {
	data, err := s.readWorker(r.Context(), r.PathValue("worker"))
	if err != nil {
		return err
	}
	return s.render(w, r, "worker.html", page{
		Title: "Worker " + runview.Printable(data.Name), Nav: "workers", Crumbs: []crumb{{"Workers", "/workers"}, {Name: data.Name}}, Data: data, Live: "/live" + data.Path,
	})
}

// readWorker reads a worker by its id or its name, with the runs that it holds. Of several workers with the name, it reads the
// first in the list. It refuses an unknown worker with status 404.
func (s *server) readWorker(ctx context.Context, worker string) (*workerData, error) {
	g, err := s.fleet(ctx)
	if err != nil {
		return nil, err
	}
	var found *queue.WorkerInfo
	for i := range g.Workers {
		w := &g.Workers[i]
		if w.ID.String() == worker {
			found = w
			break
		}
		if found == nil && w.Name == worker {
			found = w
		}
	}
	if found == nil {
		return nil, &refusal{
			status: http.StatusNotFound, message: "There is no worker " + runview.InlineText(worker) + ".", hint: "`oarlock workers --all` lists the workers; a worker is deleted from the list a week after its end.",
		}
	}
	data := &workerData{workerRow: workerRowOf(found), Rights: s.rights(ctx), Command: "oarlock workers drain " + found.ID.String()}
	for _, name := range found.Queues {
		data.Serves = append(data.Serves, queueLink{name, queuePath(name)})
	}
	for i := range g.Workers {
		if w := &g.Workers[i]; w.Name == found.Name && w.ID != found.ID && len(data.Same) < workersShown {
			data.Same = append(data.Same, workerRowOf(w))
		}
	}
	if !data.AtWork() {
		return data, nil
	}
	if data.Note = runview.QuietNote(found); data.Note != "" {
		why, err := s.store.MayBeCopy(ctx)
		if err != nil {
			return nil, err
		}
		if why != "" {
			data.Note = "no sign of life for " + runview.Span(found.BeatAge) + ": " + why
		}
	}
	runs, err := s.store.HeldRuns(ctx, found.ID, heldShown)
	data.Held = fleetRunsOf(runs)
	return data, err
}

func (s *server) liveWorker(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("worker")
	return s.stream(w, r, s.listSource("worker "+name, "worker.html", []string{"worker#head", "worker#runs"}, func(ctx context.Context) (any, error) {
		return s.readWorker(ctx, name)
	}))
}

// drainPage shows the effects of a drain, with the form that requests it.
func (s *server) drainPage(w http.ResponseWriter, r *http.Request) error {
	data, err := s.readWorker(r.Context(), r.PathValue("worker"))
	if err != nil {
		return err
	}
	return s.render(w, r, "drain.html", page{
		Title: "Drain worker " + runview.Printable(data.Name), Nav: "workers",
		Crumbs: []crumb{{"Workers", "/workers"}, {data.Name, data.Path}, {Name: "Drain"}}, Data: data,
	})
}

// drainWorker asks one worker to drain, and redirects to its page. Other workers of the same name are not affected, because it
// sends the id. It refuses a worker that has ended.
func (s *server) drainWorker(r *http.Request) (answer, error) {
	data, err := s.readWorker(r.Context(), r.PathValue("worker"))
	if err != nil {
		return answer{}, err
	}
	_, err = s.store.DrainWorker(r.Context(), data.ID.String())
	if errors.Is(err, queue.ErrNotFound) {
		return answer{}, &refusal{status: http.StatusConflict, message: fmt.Sprintf("Worker %s is no longer at work.", runview.InlineText(data.Name)), hint: "There is nothing left to drain."}
	}
	if err != nil {
		return answer{}, err
	}
	s.glances.forget()
	return answer{To: data.Path}, nil
}
