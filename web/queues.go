package web

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/web/draw"
)

const dueShown = 20 // on a queue's page, queued runs that it lists

// fleet returns the glance with queues and workers, at most lookInterval old. It refuses a login that is not allowed to see them.
func (s *server) fleet(ctx context.Context) (glance, error) {
	g, err := s.glances.get(ctx)
	if err == nil && !g.Seen {
		err = &refusal{
			status: http.StatusForbidden, message: "This login lacks the right to see queues and workers.", hint: "Have an administrator grant oarlock_read to this login.",
		}
	}
	return g, err
}

// queueRow is a queue in the list and on its page.
type queueRow struct {
	queue.Queue

	Path string
	Bar  template.HTML // running runs of MaxRunning; "": there is no limit
}

func queueRowOf(q *queue.Queue) queueRow {
	row := queueRow{Queue: *q, Path: queuePath(q.Name)}
	if q.MaxRunning > 0 {
		row.Bar = draw.Progress([]draw.Part{{Count: min(int(q.Running), q.MaxRunning), Class: "b-active"}}, q.MaxRunning)
	}
	return row
}

// Waiting returns the number of queued runs, with a + if the count stopped at its limit.
func (q *queueRow) Waiting() string {
	if q.Queued >= queue.MaxGlimpsed {
		return num(q.Queued) + "+"
	}
	return num(q.Queued)
}

func queuePath(name string) string { return "/queues/" + url.PathEscape(name) }

type queuesData struct {
	Rows    []queueRow
	Idle    int // number of idle queues that one line stands for
	Command string
	Pools   []poolRow
}

// poolRow is a pool in the list below the queues.
type poolRow struct {
	queue.Pool

	Slots, Rate string        // limits; "": none
	Bar         template.HTML // what is taken of the slots; "": they are not limited, or by key
}

func (s *server) readPools(ctx context.Context) ([]queue.Pool, error) { return s.store.Pools(ctx, "") }

func poolRowOf(p *queue.Pool) poolRow {
	row := poolRow{Pool: *p, Slots: runview.PoolSlots(p.PoolLimits), Rate: runview.PoolRate(p.PoolLimits)}
	if p.PoolLimits.Slots > 0 && !p.PerKey {
		row.Bar = draw.Progress([]draw.Part{{Count: int(min(p.Taken, int64(p.PoolLimits.Slots))), Class: "b-active"}}, p.PoolLimits.Slots)
	}
	return row
}

// queues lists the queues, the busy and the paused first. One line stands for many idle queues, unless the query has a value for
// all.
func (s *server) queues(w http.ResponseWriter, r *http.Request) error {
	all := r.URL.Query().Get("all") != ""
	data, err := s.readQueues(r.Context(), all)
	if err != nil {
		return err
	}
	p := page{Title: "Queues", Nav: "queues", Data: data, Live: "/live/queues"}
	if all {
		p.Live += "?all=1"
	}
	return s.render(w, r, "queues.html", p)
}

func (s *server) readQueues(ctx context.Context, all bool) (*queuesData, error) {
	g, err := s.fleet(ctx)
	if err != nil {
		return nil, err
	}
	data := &queuesData{Command: "oarlock queues"}
	shown, idle, folds := runview.SplitQueues(g.Queues)
	if folds && !all {
		data.Idle = len(idle)
	} else {
		shown = append(shown, idle...)
	}
	for i := range shown {
		data.Rows = append(data.Rows, queueRowOf(&shown[i]))
	}
	pools, err := s.pools.get(ctx)
	for i := range pools {
		data.Pools = append(data.Pools, poolRowOf(&pools[i]))
	}
	return data, err
}

func (s *server) liveQueues(w http.ResponseWriter, r *http.Request) error {
	all := r.URL.Query().Get("all") != ""
	return s.stream(w, r, s.listSource(fmt.Sprint("queues ", all), "queues.html", []string{"queues#list", "queues#pools"}, func(ctx context.Context) (any, error) {
		return s.readQueues(ctx, all)
	}))
}

// queueData is the content of the page of a queue.
type queueData struct {
	queueRow

	Runs    []fleetRun // queued runs, the longest waiting first
	Workers []workerRow
	Rights  queue.Rights
	All     string // path of the list of all queued runs
	Limits  limitsForm
}

// Verb returns the verb of the button that pauses or resumes the queue.
func (d *queueData) Verb() string {
	if d.PausedBy != "" {
		return "resume"
	}
	return "pause"
}

// Command returns the command that pauses or resumes the queue. For a login without that right, it returns the command that lists
// queues.
func (d *queueData) Command() string {
	if d.Rights.Admin {
		return "oarlock queues " + d.Verb() + " " + d.Name
	}
	return "oarlock queues"
}

// limitsForm holds the limits as the user typed them, and the Problem to show with them; "": none.
type limitsForm struct{ Running, Queued, Problem string }

// fleetRun is a run in the list of a queue or a worker.
type fleetRun struct {
	*queue.Run

	Why string
}

func fleetRunsOf(runs []queue.Run) (all []fleetRun) {
	for i := range runs {
		all = append(all, fleetRun{&runs[i], runview.RunNote(&runs[i])})
	}
	return all
}

func (s *server) queue(w http.ResponseWriter, r *http.Request) error {
	data, err := s.readQueue(r.Context(), r.PathValue("queue"))
	if err != nil {
		return err
	}
	return s.render(w, r, "queue.html", data.page())
}

func (d *queueData) page() page {
	return page{Title: "Queue " + d.Name, Nav: "queues", Crumbs: []crumb{{"Queues", "/queues"}, {Name: d.Name}}, Data: d, Live: "/live" + d.Path}
}

func (s *server) readQueue(ctx context.Context, name string) (*queueData, error) {
	g, err := s.fleet(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(g.Queues, func(q queue.Queue) bool { return q.Name == name })
	if at < 0 {
		return nil, &refusal{status: http.StatusNotFound, message: "There is no queue " + runview.InlineText(name) + ".", hint: "`oarlock queues` lists the queues."}
	}
	q := g.Queues[at]
	waiting := runFilter{Queue: name, States: []string{"queued"}}
	data := &queueData{queueRow: queueRowOf(&q), Rights: s.rights(ctx), All: waiting.path()}
	data.Limits = limitsForm{Running: strconv.Itoa(q.MaxRunning), Queued: strconv.Itoa(q.MaxQueued)}
	for i := range g.Workers {
		w := &g.Workers[i]
		if w.EndedAt.IsZero() && len(data.Workers) < workersShown && (len(w.Queues) == 0 || slices.Contains(w.Queues, name)) {
			data.Workers = append(data.Workers, workerRowOf(w))
		}
	}
	runs, err := s.store.DueRuns(ctx, name, dueShown)
	data.Runs = fleetRunsOf(runs)
	return data, err
}

func (s *server) liveQueue(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("queue")
	return s.stream(w, r, s.listSource("queue "+name, "queue.html", []string{"queue#head", "queue#view"}, func(ctx context.Context) (any, error) {
		return s.readQueue(ctx, name)
	}))
}

// queueOfForm redirects a GET on the address of a form to the page with the form. Browsers send one when the user reloads an
// error page.
func (s *server) queueOfForm(w http.ResponseWriter, r *http.Request) error {
	s.redirect(w, r, queuePath(r.PathValue("queue")))
	return nil
}

func (s *server) pauseQueue(r *http.Request) (answer, error) { return s.holdQueue(r, true) }

func (s *server) resumeQueue(r *http.Request) (answer, error) { return s.holdQueue(r, false) }

// holdQueue pauses or resumes a queue, and redirects to its page. It refuses the name of a missing queue, because the database
// would create that queue.
func (s *server) holdQueue(r *http.Request, paused bool) (answer, error) {
	data, err := s.readQueue(r.Context(), r.PathValue("queue"))
	if err != nil {
		return answer{}, err
	}
	return s.setQueue(r.Context(), data, queue.QueueChange{Paused: &paused})
}

// setQueue changes the queue of data, and redirects to its page. It drops the glance, so that the page shows the change at once.
func (s *server) setQueue(ctx context.Context, data *queueData, change queue.QueueChange) (answer, error) {
	change.Name = data.Name
	if err := s.store.SetQueue(ctx, change); err != nil {
		return answer{}, err
	}
	s.glances.forget()
	return answer{To: data.Path}, nil
}

// limitQueue sets both limits of a queue, and redirects to its page. If a limit is no whole number in range, it shows the page
// again with the user's texts and the problem.
func (s *server) limitQueue(r *http.Request) (answer, error) {
	data, err := s.readQueue(r.Context(), r.PathValue("queue"))
	if err != nil {
		return answer{}, err
	}
	given := limitsForm{Running: strings.TrimSpace(r.PostForm.Get("max_running")), Queued: strings.TrimSpace(r.PostForm.Get("max_queued"))}
	running, wrong := limitOf("max running", given.Running)
	queued, alsoWrong := limitOf("max queued", given.Queued)
	if given.Problem = strings.TrimSpace(wrong + " " + alsoWrong); given.Problem != "" {
		data.Limits = given
		return answer{File: "queue.html", Page: data.page(), Status: http.StatusUnprocessableEntity}, nil
	}
	return s.setQueue(r.Context(), data, queue.QueueChange{MaxRunning: &running, MaxQueued: &queued})
}

// limitOf parses a limit from 0, which means no limit, to the highest number that the database stores. wrong is the error for the
// user, which names field; "": text is right.
func limitOf(field, text string) (limit int, wrong string) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Sprintf("A %s is a whole number from 0 to 2,147,483,647, and 0 is no limit, not %q.", field, runview.Printable(text))
	}
	return int(n), ""
}
