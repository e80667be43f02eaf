package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/worker"
)

// perDAG counts by names of DAGs, which are data: users choose them.
type perDAG struct {
	dags   *names
	drives *prometheus.CounterVec
	took   *prometheus.HistogramVec
	tasks  *prometheus.CounterVec
}

func newPerDAG() *perDAG {
	return &perDAG{
		dags:   newNames(maxDAGs),
		drives: counterVec("dag_drives_total", "As oarlock_drives_total, by DAG.", "dag", "outcome"),
		took:   histogramVec("dag_run_duration_seconds", "As oarlock_run_duration_seconds, by DAG.", workBuckets, "dag"),
		tasks:  counterVec("dag_tasks_total", "As oarlock_tasks_total, by DAG.", "dag", "state"),
	}
}

func (p *perDAG) collectors() []prometheus.Collector {
	return []prometheus.Collector{p.drives, p.took, p.tasks}
}

func (p *perDAG) left(dag string, as worker.Outcome, took time.Duration) {
	dag = p.dags.bound(dag)
	p.drives.WithLabelValues(dag, oneOf(outcomes, string(as))).Inc()
	if slices.Contains(runStates, string(as)) {
		p.took.WithLabelValues(dag).Observe(took.Seconds())
	}
}

func (p *perDAG) settled(dag string, as dagrun.State) {
	p.tasks.WithLabelValues(p.dags.bound(dag), oneOf(taskStates, as.String())).Inc()
}
