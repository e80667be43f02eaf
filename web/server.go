package web

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// Limits of a connection. They are generous to a browser, and cut off a client that only keeps a connection open.
const (
	headerTimeout  = 5 * time.Second
	readTimeout    = 10 * time.Second
	writeTimeout   = 30 * time.Second // a stream sets a deadline of its own for each write
	idleTimeout    = 2 * time.Minute
	closeTimeout   = time.Second // for answers in progress when the server stops
	maxHeaderBytes = 32 << 10
)

// Options are the settings of a Handler. The zero value serves loopback names at the root.
type Options struct {
	Base    string       // prefix of all paths, such as /x/y; "": none
	Hosts   []string     // host names of requests, without ports, besides loopback names
	Version string       // of the program, shown below each page
	Name    string       // of the cluster or database, shown above each page
	Log     *slog.Logger // for errors; nil: slog.Default()

	ReadOnly bool // refuse every action, and do not offer any

	Doctor func(context.Context) ([]Check, error) // examines the database; nil: there is no page of checks
}

// server serves the pages of one store.
type server struct {
	store   *queue.Store
	options Options
	log     *slog.Logger
	pages   pages
	assets  assets
	glances cached[glance]
	pools   cached[[]queue.Pool]
	doctors cached[examined]
	found   atomic.Pointer[examined] // newest examination that succeeded; nil: none yet
	dags    kept[dagVersion, *queue.Definition]
	said    kept[failure, []logLine]           // last lines of failed tasks
	acted   kept[[sha256.Size]byte, *onceDone] // forms that act once, by hash
	hub     *hub

	secure  bool // browsers reach the server by https
	signOut bool // users have sessions that they can end

	onRefused func() // called when the database refuses the login; nil: the login is the server's own
}

var basePath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)*$`)

// Handler returns the pages of a store. It fails if Options.Base is not like /x/y. The caller closes the store when the pages are
// no longer served.
func Handler(store *queue.Store, o Options) (http.Handler, error) {
	s, err := newServer(store, o)
	if err != nil {
		return nil, err
	}
	return s.guard(s.routes()), nil
}

func newServer(store *queue.Store, o Options) (*server, error) {
	if !basePath.MatchString(o.Base) || o.Base != "" && path.Clean(o.Base) != o.Base {
		return nil, fmt.Errorf("the base path %q is not like /x/y: it begins with a slash, ends without one, and has letters, digits, and . _ ~ - between", o.Base)
	}
	s := &server{store: store, options: o, log: o.Log}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.prepare()
	var err error
	if s.assets, err = loadAssets(); err != nil {
		return nil, err
	}
	if s.pages, err = s.parsePages(); err != nil {
		return nil, err
	}
	return s, nil
}

// forLogin returns a server for the pages of another login. It shares templates, assets and all options but Doctor with s; streams
// and cached reads are its own.
func (s *server) forLogin(l Login) *server {
	o := s.options
	o.Doctor = l.Doctor
	other := &server{store: l.Store, options: o, log: s.log, pages: s.pages, assets: s.assets, secure: s.secure, signOut: s.signOut}
	other.prepare()
	return other
}

// prepare sets up the fields that each login has for itself: cached reads and the hub.
func (s *server) prepare() {
	s.glances.read, s.glances.interval, s.glances.timeout = s.lookAround, lookInterval, lookTimeout
	s.pools.read, s.pools.interval, s.pools.timeout = s.readPools, lookInterval, lookTimeout
	s.doctors.read, s.doctors.interval, s.doctors.timeout = s.examine, examineInterval, examineTimeout
	s.hub = newHub()
}

// pageFunc answers a request, or returns an error to be shown.
type pageFunc func(http.ResponseWriter, *http.Request) error

// handle registers page for a method and a path below Options.Base. An error that page returns is shown by answerError.
func (s *server) handle(mux *http.ServeMux, method, path string, page pageFunc) {
	mux.HandleFunc(method+" "+s.options.Base+path, func(w http.ResponseWriter, r *http.Request) {
		if err := page(w, r); err != nil {
			s.answerError(w, r, err)
		}
	})
}

// routes returns the handler of all pages.
func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(path string, page pageFunc) { s.handle(mux, http.MethodGet, path, page) }
	post := func(route string, do action) { s.post(mux, route, do) }
	handle("/{$}", s.home)
	handle("/runs", s.runs)
	handle("/runs/act", s.bulk)
	post("/runs/act", s.askMany)
	handle("/runs/{run}", s.run)
	for _, verb := range steerVerbs {
		handle("/runs/{run}/"+verb.String(), s.steerPage(verb))
		post("/runs/{run}/"+verb.String(), s.steer(verb))
	}
	handle("/runs/{run}/log", s.runLogs)
	handle("/runs/{run}/compare", s.compareLast)
	handle("/runs/{run}/compare/{other}", s.compare)
	handle("/runs/{run}/again", s.againPage)
	post("/runs/{run}/again", s.again)
	handle("/dags/{dag}/enqueue", s.enqueuePage)
	post("/dags/{dag}/enqueue", s.enqueue)
	handle("/runs/{run}/steps/{step}", s.step)
	handle("/runs/{run}/steps/{step}/log", s.logPage)
	handle("/runs/{run}/steps/{step}/log.txt", s.logText)
	handle("/live/runs", s.liveRuns)
	handle("/live/approvals", s.liveApprovals)
	handle("/live/runs/{run}", s.liveRun)
	handle("/live/runs/{run}/part", s.livePart)
	handle("/live/runs/{run}/steps/{step}", s.liveStep)
	handle("/live/runs/{run}/steps/{step}/log", s.liveLogPage)
	handle("/approvals", s.approvals)
	handle("/dags", s.listDAGs)
	handle("/dags/{dag}", s.dag)
	handle("/dags/{dag}/versions/{version}", s.dagVersion)
	handle("/dags/{dag}/diff/{range}", s.dagDiff)
	handle("/dags/{dag}/pause", s.dagOfForm)
	handle("/dags/{dag}/resume", s.dagOfForm)
	post("/dags/{dag}/pause", s.pauseDAG)
	post("/dags/{dag}/resume", s.resumeDAG)
	s.fleetRoutes(handle, post)
	s.scheduleRoutes(handle, post)
	s.routeAPI(mux)
	handle("/jump", s.jump)
	handle("/theme", s.theme)
	handle("/asset/{hash}/{name}", s.asset)
	handle("/livez", s.livez)
	handle("/readyz", s.readyz)
	handle("/", nothingHere)
	if s.options.Base != "" {
		mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { s.redirect(w, r, "/runs") })
		mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) { s.answerError(w, r, nothingHere(w, r)) })
	}
	return mux
}

// fleetRoutes registers the pages of queues, workers and checks.
func (s *server) fleetRoutes(handle func(string, pageFunc), post func(string, action)) {
	handle("/queues", s.queues)
	handle("/queues/{queue}", s.queue)
	handle("/queues/{queue}/{form}", s.queueOfForm)
	handle("/workers", s.workers)
	handle("/workers/{worker}", s.worker)
	handle("/workers/{worker}/drain", s.drainPage)
	handle("/live/queues", s.liveQueues)
	handle("/live/queues/{queue}", s.liveQueue)
	handle("/live/workers", s.liveWorkers)
	handle("/live/workers/{worker}", s.liveWorker)
	handle("/doctor", s.doctor)
	post("/doctor", s.examineNow)
	post("/queues/{queue}/pause", s.pauseQueue)
	post("/queues/{queue}/resume", s.resumeQueue)
	post("/queues/{queue}/limits", s.limitQueue)
	post("/workers/{worker}/drain", s.drainWorker)
}

func nothingHere(http.ResponseWriter, *http.Request) error {
	return &refusal{status: http.StatusNotFound, message: "This page does not exist.", hint: "See the list of runs, or look for a run by its number."}
}

// home redirects to the list of runs, or to the approvals for a login that can only decide approvals.
func (s *server) home(w http.ResponseWriter, r *http.Request) error {
	if s.rights(r.Context()).OnlyApproves() {
		s.redirect(w, r, approvalsOfMine)
		return nil
	}
	s.redirect(w, r, "/runs")
	return nil
}

// redirect sends the browser to a path below the base, which it gets with GET.
func (s *server) redirect(w http.ResponseWriter, r *http.Request, to string) {
	http.Redirect(w, r, s.options.Base+to, http.StatusSeeOther) //nolint:gosec // callers pass our own paths; a path from the request went through safeBack
}

// livez answers that the process is alive. It does not ask the database, because no restart of this process repairs that.
func (s *server) livez(w http.ResponseWriter, _ *http.Request) error {
	return sayLine(w, http.StatusOK, "ok")
}

// readyz answers with status 200 if the database can be read within lookTimeout, else with 503.
func (s *server) readyz(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), lookTimeout)
	defer cancel()
	if _, err := s.store.List(ctx, queue.Filter{Limit: 1}); err != nil {
		return sayLine(w, http.StatusServiceUnavailable, problemOf(err).message)
	}
	return sayLine(w, http.StatusOK, "ok")
}

// sayLine answers with one line of plain text. It always returns nil, as a pageFunc does.
func sayLine(w http.ResponseWriter, status int, line string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, line) //nolint:gosec // the content type is plain text, so a browser does not take it for markup
	return nil
}

// Serve serves h on l until ctx ends, with https if secure is not nil. When ctx ends, it closes l, gives answers in progress up to
// closeTimeout, and returns nil. It returns an error if serving fails before that, or if the server cannot be closed.
func Serve(ctx context.Context, l net.Listener, h http.Handler, secure *tls.Config, log *slog.Logger) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	hs := &http.Server{
		Handler: h, MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return running }, // so that streams end with Serve
	}
	ended := make(chan error, 1)
	go func() {
		if secure == nil {
			ended <- hs.Serve(l)
			return
		}
		hs.TLSConfig = secure
		ended <- hs.ServeTLS(l, "", "")
	}()
	select {
	case err := <-ended:
		return served(err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err := hs.Shutdown(last)
	if errors.Is(err, context.DeadlineExceeded) {
		err = hs.Close()
	}
	return errors.Join(err, served(<-ended))
}

// served returns err, the result of http.Server.Serve, wrapped; or nil if the server was shut down or closed.
func served(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve pages: %w", err)
}

// below returns the path of route below the base, with pairs of name and value as its query, encoded by queryOf.
func (s *server) below(route string, pairs ...any) (string, error) {
	path, err := withQuery(route, pairs...)
	return s.options.Base + path, err
}

// withQuery adds pairs of name and value, encoded by queryOf, to the query of a path. The path may have a query already.
func withQuery(path string, pairs ...any) (string, error) {
	query, err := queryOf(pairs)
	if err != nil || query == "" {
		return path, err
	}
	mark := "?"
	if strings.Contains(path, "?") {
		mark = "&"
	}
	return path + mark + query, nil
}
