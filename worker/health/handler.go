package health

import (
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/worker"
)

// Answer is the JSON answer of the endpoints.
type Answer struct {
	OK          bool    `json:"ok"`
	Why         string  `json:"why,omitempty"` // reason; only if OK is false
	Phase       string  `json:"phase"`
	Worker      string  `json:"worker,omitempty"`
	LeaseMargin float64 `json:"lease_margin_seconds"`
	Runs        int     `json:"runs"`
	Slots       int     `json:"slots"`
	Busy        int     `json:"busy"`
}

// Handler serves /livez, /readyz and /metrics for a worker. It calls status for each request, concurrently if requests are. If
// metrics is nil there is no /metrics.
func Handler(status func() worker.Status, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", say(status, Alive))
	mux.HandleFunc("GET /readyz", say(status, Ready))
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	return mux
}

func say(status func() worker.Status, judge func(worker.Status) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := status()
		a := answer(&s, judge(s))
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		body, kind := []byte(a.line()), "text/plain; charset=utf-8"
		if wantsJSON(r) {
			body, _ = json.Marshal(a) // texts and finite numbers: no error
			body, kind = append(body, '\n'), "application/json"
		}
		w.Header().Set("Content-Type", kind)
		if !a.OK {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write(body) // the client may have gone, so an error is ignored
	}
}

func answer(s *worker.Status, why error) Answer {
	a := Answer{
		OK: why == nil, Phase: string(s.Phase), LeaseMargin: margin(s).Seconds(),
		Runs: s.Runs, Slots: s.Slots.Slots, Busy: s.Slots.Slots - s.Slots.Free,
	}
	if why != nil {
		a.Why = why.Error()
	}
	if s.Worker != uuid.Nil {
		a.Worker = s.Worker.String()
	}
	return a
}

func (a *Answer) line() string {
	if a.OK {
		return "ok\n"
	}
	return strings.Join(strings.Fields(a.Why), " ") + "\n"
}

// wantsJSON reports whether the client's Accept header names application/json.
func wantsJSON(r *http.Request) bool {
	for _, header := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(header, ",") {
			if kind, _, err := mime.ParseMediaType(part); err == nil && kind == "application/json" {
				return true
			}
		}
	}
	return false
}
