package metrics

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// choice is a counter with one label of fixed values. All values are present from the start, with 0, so that the first event is
// seen as a rise.
type choice struct {
	vec    *prometheus.CounterVec
	values map[string]prometheus.Counter // read only
}

func newChoice(name, help, label string, values []string) choice {
	c := choice{vec: counterVec(name, help, label), values: map[string]prometheus.Counter{}}
	for _, v := range values {
		c.values[v] = c.vec.WithLabelValues(v)
	}
	return c
}

func (c choice) inc(value string) { c.add(value, 1) }

func (c choice) add(value string, n float64) {
	if counter, ok := c.values[value]; ok {
		counter.Add(n)
		return
	}
	c.vec.WithLabelValues(other).Add(n)
}

// names bounds the values of a label: the first most values stay, later ones become other.
type names struct {
	mu    sync.RWMutex
	known map[string]bool
	most  int
}

func newNames(most int) *names { return &names{known: map[string]bool{}, most: most} }

func (n *names) bound(name string) string {
	n.mu.RLock()
	known := n.known[name]
	n.mu.RUnlock()
	if known {
		return name
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.known[name] {
		if len(n.known) >= n.most {
			return other
		}
		n.known[name] = true
	}
	return name
}

// oneOf returns value if it is in list, else the label other.
func oneOf(list []string, value string) string {
	if slices.Contains(list, value) {
		return value
	}
	return other
}
