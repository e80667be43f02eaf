package web

import (
	"cmp"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	logPieces    = 256  // of one answer; a piece has up to 64 KiB
	statsDefault = "1d" // the default of `oarlock stats`, too
)

// pageOf returns one part of a list, with object(&row) for each of the rows in read. Its Next is nil: the caller sets Next if
// another part follows.
func pageOf[T, J any](read []T, object func(*T) J) apiList[J] {
	page := apiList[J]{Items: make([]J, len(read))}
	for i := range read {
		page.Items[i] = object(&read[i])
	}
	return page
}

func (s *server) apiRuns(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	f := filterOf(query)
	filter, err := f.query(time.Now())
	if err != nil {
		return err
	}
	if filter.Limit, err = countIn(query, "limit", queue.MaxPage); err != nil {
		return err
	}
	list, err := s.store.List(r.Context(), filter)
	if err != nil {
		return err
	}
	page := pageOf(list.Runs, runview.NewRunJSON)
	if list.Next != 0 {
		page.Next = new(strconv.FormatInt(int64(list.Next), 10))
	}
	return answerJSON(w, http.StatusOK, page)
}

// apiRun answers with a run and its tasks. If the run has more tasks than queue.MaxTasks, tasks is null, and the client reads
// them in parts from apiTasks.
func (s *server) apiRun(w http.ResponseWriter, r *http.Request) error {
	id, err := apiRunID(r)
	if err != nil {
		return err
	}
	run, err := s.store.Get(r.Context(), id)
	if err != nil {
		return err
	}
	var tasks []queue.Task
	isLarge := run.Counts.Total > queue.MaxTasks
	if !isLarge {
		if tasks, err = s.store.Tasks(r.Context(), id); err != nil {
			return err
		}
	}
	counted, err := s.store.CountItems(r.Context(), id, tasks)
	if err != nil {
		return err
	}
	if isLarge {
		return answerJSON(w, http.StatusOK, runview.NewLargeStatusJSON(run, counted))
	}
	return answerJSON(w, http.StatusOK, runview.NewStatusJSON(run, tasks, counted))
}

// apiTasks answers with one part of the run's tasks that have begun. It gives null for the outputs of each, because they may be of
// any size; apiTask gives the outputs of one task.
func (s *server) apiTasks(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	q := queue.TaskQuery{Step: query.Get("step"), States: given(query["state"]), Item: query.Get("item")}
	var err error
	if q.Run, err = apiRunID(r); err != nil {
		return err
	}
	if q.Limit, err = countIn(query, "limit", queue.MaxTasks); err != nil {
		return err
	}
	if after := query.Get("after"); after != "" {
		if q.After, err = parseTaskKey(after); err != nil {
			return err
		}
	}
	found, err := s.store.TaskPage(r.Context(), q)
	if err != nil {
		return err
	}
	page := pageOf(found.Tasks, func(t *queue.Task) runview.TaskJSON {
		j := runview.NewTaskJSON(t)
		j.Outputs = json.RawMessage("null")
		return j
	})
	if found.Next != nil {
		page.Next = new(taskKeyText(*found.Next))
	}
	return answerJSON(w, http.StatusOK, page)
}

func (s *server) apiTask(w http.ResponseWriter, r *http.Request) error {
	id, err := apiRunID(r)
	if err != nil {
		return err
	}
	task, err := s.store.TaskDetail(r.Context(), id, r.PathValue("step"), r.URL.Query().Get("item"))
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, runview.NewTaskJSON(&task.Task))
}

// apiStory is one part of the events of a run.
type apiStory struct {
	apiList[runview.StoryEvent]

	Brief bool `json:"brief"` // the starts and ends of tasks are left out
}

// apiEvents answers with one part of the events of a run, the newest first, as the page of the run lists them. The field brief says
// whether the starts and ends of tasks are left out.
func (s *server) apiEvents(w http.ResponseWriter, r *http.Request) error {
	id, err := apiRunID(r)
	if err != nil {
		return err
	}
	p, err := s.readSteps(r.Context(), runQuery{Kind: runKind, ID: id, View: "events", Before: r.URL.Query().Get("before")})
	if err != nil {
		return err
	}
	events, err := s.readEvents(r.Context(), p)
	if err != nil {
		return err
	}
	story := apiStory{apiList[runview.StoryEvent]{Items: events.Lines, Next: runview.TextOrNull(events.Before)}, events.Brief}
	if story.Items == nil {
		story.Items = []runview.StoryEvent{}
	}
	return answerJSON(w, http.StatusOK, story)
}

// apiLog answers with at most logPieces pieces of the log of an attempt, each as JSON on a line of its own. Pieces are numbered
// without gaps: the client gets the next ones with from set to the last number plus one. No piece follows a piece that is marked
// final.
func (s *server) apiLog(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	q := queue.LogQuery{Step: r.PathValue("step"), Item: query.Get("item")}
	var err error
	if q.Run, err = apiRunID(r); err != nil {
		return err
	}
	if q.Attempt, err = countIn(query, "attempt", math.MaxInt32); err != nil {
		return err
	}
	if from := query.Get("from"); from != "" {
		if q.From, err = smallNumber(from); err != nil {
			return badFilter("from is the number of a piece, counted from 0, not %q", from)
		}
	}
	if q.Limit, err = countIn(query, "limit", logPieces); err != nil {
		return err
	}
	q.Limit = cmp.Or(q.Limit, logPieces)
	pieces, err := s.store.ReadLogs(r.Context(), q)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/jsonl")
	for i := range pieces {
		pieces[i].Step = q.Step
		_, _ = io.WriteString(w, runview.CompactJSON(runview.NewChunkJSON(&pieces[i]))+"\n") // the client may have gone, so an error is ignored
	}
	return nil
}

func (s *server) apiDAGs(w http.ResponseWriter, r *http.Request) error {
	all, err := boolIn(r.URL.Query(), "all")
	if err != nil {
		return err
	}
	dags, err := s.store.DAGs(r.Context())
	if err != nil {
		return err
	}
	var listed []queue.DAG
	for i := range dags {
		if all || dags[i].RemovedAt.IsZero() {
			listed = append(listed, dags[i])
		}
	}
	return answerJSON(w, http.StatusOK, pageOf(listed, runview.NewListedDAGJSON))
}

func (s *server) apiQueues(w http.ResponseWriter, r *http.Request) error {
	queues, err := s.store.Queues(r.Context())
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, pageOf(queues, runview.NewQueueJSON))
}

func (s *server) apiPools(w http.ResponseWriter, r *http.Request) error {
	pools, err := s.store.Pools(r.Context(), "")
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, pageOf(pools, runview.NewPoolJSON))
}

func (s *server) apiWorkers(w http.ResponseWriter, r *http.Request) error {
	all, err := boolIn(r.URL.Query(), "all")
	if err != nil {
		return err
	}
	workers, err := s.store.Workers(r.Context())
	if err != nil {
		return err
	}
	var listed []queue.WorkerInfo
	for i := range workers {
		if all || workers[i].EndedAt.IsZero() {
			listed = append(listed, workers[i])
		}
	}
	return answerJSON(w, http.StatusOK, pageOf(listed, runview.NewWorkerJSON))
}

func (s *server) apiStats(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	since, err := sinceTime(cmp.Or(query.Get("since"), statsDefault), time.Now())
	if err != nil {
		return err
	}
	dag := query.Get("dag")
	if dag != "" {
		if _, err := s.store.GetDAG(r.Context(), dag, 0); err != nil {
			return err
		}
	}
	stats, err := s.store.Stats(r.Context(), dag, since)
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, runview.NewStatsJSON(stats, since))
}
