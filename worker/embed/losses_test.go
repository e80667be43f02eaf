package embed

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oarlock-dev/oarlock/worker/metrics"
	"github.com/oarlock-dev/oarlock/worker/supervise"
)

// The metrics know each reason of the guard from the start, so that the first of it is seen as a rise.
func TestLosses_MetricsKnowEachReasonOfTheGuard(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	if _, err := metrics.New(metrics.Config{Registerer: registry}); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, f := range families {
		if f.GetName() != "oarlock_driver_replacements_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			known = append(known, m.GetLabel()[0].GetValue())
		}
	}
	var whys []string
	for _, why := range supervise.Whys {
		whys = append(whys, string(why))
	}
	slices.Sort(known)
	slices.Sort(whys)
	if !slices.Equal(known, whys) {
		t.Errorf("metrics have %v, the guard %v", known, whys)
	}
}
