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
	found := examined{At: time.Now()}
	var err error
	if found.Checks, err = s.options.Doctor(ctx); err == nil {
		s.found.Store(&found)
	}
	return found, err
}

// doctorPage is what the newest examination found.
type doctorPage struct {
	examined // without checks: there was none since the server began

	May bool // examine
}

// doctor shows what was found. It examines nothing: that writes to the database's disk, and any page may have a browser send a GET.
func (s *server) doctor(w http.ResponseWriter, r *http.Request) error {
	if s.options.Doctor == nil {
		return nothingHere(w, r)
	}
	data := doctorPage{May: !s.options.ReadOnly}
	if found := s.found.Load(); found != nil {
		data.examined = *found
	}
	return s.render(w, r, "doctor.html", page{Title: "Doctor", Data: data})
}

// examineNow does what `oarlock doctor` does, unless that was done just now.
func (s *server) examineNow(r *http.Request) (answer, error) {
	if s.options.Doctor == nil {
		return answer{}, nothingHere(nil, r)
	}
	_, err := s.doctors.get(r.Context())
	return answer{To: "/doctor"}, err
}
