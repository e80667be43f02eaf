package metrics

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/worker"
)

// Config is the configuration of a Set.
type Config struct {
	Registerer prometheus.Registerer // nil: the set has a registry of its own, with the metrics of Go and of the process
	PerDAG     bool                  // also count by DAG, for up to 200 DAGs
	Version    string                // of the program
}

// Limits of labels with values that are not known when the program starts. Further values become other.
const (
	maxDAGs   = 200
	maxBodies = 200
	maxPools  = 50
)

// other is the label of all values beyond a limit.
const other = "other"

// Set is the metrics of one worker. It is safe for concurrent use.
type Set struct {
	gatherer prometheus.Gatherer // nil: the given registerer cannot be read
	counted  counted
	perDAG   *perDAG // nil: off
	watched  *watched
}

// New makes a set and registers its metrics in c.Registerer; nil: in a registry of its own. If one cannot be registered, it removes
// the others again and returns the error.
func New(c Config) (*Set, error) {
	s := &Set{counted: newCounted(), watched: newWatched(c.Version)}
	if c.PerDAG {
		s.perDAG = newPerDAG()
	}
	into := c.Registerer
	if into == nil {
		own := prometheus.NewRegistry()
		own.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		into = own
	}
	s.gatherer, _ = into.(prometheus.Gatherer)
	for i, collector := range s.collectors() {
		if err := into.Register(collector); err != nil {
			for _, done := range s.collectors()[:i] {
				into.Unregister(done)
			}
			return nil, err
		}
	}
	return s, nil
}

func (s *Set) collectors() []prometheus.Collector {
	all := append(s.counted.collectors(), s.watched)
	if s.perDAG != nil {
		all = append(all, s.perDAG.collectors()...)
	}
	return all
}

// maxScrapes is how many scrapes may be in progress at once. Further ones are refused with 503.
const maxScrapes = 4

// errUnreadable is for a prometheus.Registerer that is not a prometheus.Gatherer.
var errUnreadable = errors.New("the registerer that was given shows its metrics elsewhere")

// Handler returns a handler that serves the metrics of the registry in which the set is, the metrics of others included. If
// c.Registerer cannot be read, the handler answers 404. More than maxScrapes at once get 503.
func (s *Set) Handler() http.Handler {
	if s.gatherer == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, errUnreadable.Error(), http.StatusNotFound)
		})
	}
	return promhttp.HandlerFor(s.gatherer, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes, Timeout: scrapeTimeout,
	})
}

// The fixed values of labels.
var (
	taskStates = words(
		dagrun.TaskSucceeded, dagrun.TaskFailed, dagrun.TaskSkipped, dagrun.TaskUpstreamFailed, dagrun.TaskCanceled, dagrun.TaskReplaced,
	)
	runStates = words(dagrun.RunSucceeded, dagrun.RunFailed, dagrun.RunCanceled)
	outcomes  = append(
		words(dagrun.RunSucceeded, dagrun.RunFailed, dagrun.RunCanceled),
		string(worker.Parked), string(worker.HandedOn), string(worker.Unfit), string(worker.ClaimLost), string(worker.Refused), string(worker.Undrivable),
	)
	attemptOutcomes = []string{
		worker.AttemptSucceeded, worker.AttemptSnoozed, worker.AttemptStopped, worker.AttemptUnstarted,
		string(dagrun.KindExit), string(dagrun.KindSignal), string(dagrun.KindTimeout), string(dagrun.KindSpawn), string(dagrun.KindLost),
		string(dagrun.KindOutput), string(dagrun.KindConfig), string(dagrun.KindPublish), string(dagrun.KindHTTP), string(dagrun.KindSQL),
		string(dagrun.KindPanic), string(dagrun.KindRejected), string(dagrun.KindChild),
	}
	// commandBodies are the bodies that nearly every worker executes; alertedOutcomes are those of their outcomes that
	// deploy/alerts.yaml watches.
	commandBodies   = []string{"run", "command"}
	alertedOutcomes = []string{string(dagrun.KindSpawn), worker.AttemptUnstarted}

	phases       = []string{string(worker.Starting), string(worker.Live), string(worker.Draining), string(worker.Ending), string(worker.Stopped)}
	containments = []string{"cgroup", "subreaper", "group", "none"}
	results      = []string{resultOK, resultError}
	fireOutcomes = []string{"fired", "skipped", "dropped", "refused"}
	// replacementWhys are the reasons of package supervise, which this package does not import.
	replacementWhys = []string{"overdue", "unattached", "unstarted", "died"}
)

// Values of the label result.
const (
	resultOK    = "ok"
	resultError = "error"
)

func words[T interface{ String() string }](states ...T) []string {
	list := make([]string, len(states))
	for i, s := range states {
		list[i] = s.String()
	}
	return list
}
