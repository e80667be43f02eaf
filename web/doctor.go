package web

import (
	"context"
	"net/http"
	"time"
)

// Examining costs the database a dozen statements and a connection.
const (
	examineInterval = 10 * time.Second // between two examinations, whatever the number of viewers
	examineTimeout  = 25 * time.Second // within writeTimeout
)

// Check is one thing that was examined in the database.
type Check struct {
	Name    string // as in the output of `oarlock doctor`: server_version
	State   string // ok, warn, fail or skip
	Message string // what was seen
	Hint    string // what to do; "": nothing
}

// Class is that of a state of a run which looks the same.
func (c Check) Class() string {
	switch c.State {
	case "ok":
		return "succeeded"
	case "warn":
		return "waiting"
	case "fail":
		return "failed"
	}
	return "skipped"
}

// examined is what an examination found, and when it began.
type examined struct {
	Checks []Check
	At     time.Time
}

func (s *server) examine(ctx context.Context) (examined, error) {
	at := time.Now()
	checks, err := s.options.Doctor(ctx)
	return examined{checks, at}, err
}

// doctor shows what `oarlock doctor` says.
func (s *server) doctor(w http.ResponseWriter, r *http.Request) error {
	if s.options.Doctor == nil {
		return nothingHere(w, r)
	}
	found, err := s.doctors.get(r.Context())
	if err != nil {
		return err
	}
	return s.render(w, r, "doctor.html", page{Title: "Doctor", Data: found})
}
