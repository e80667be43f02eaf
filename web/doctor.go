package web

import (
	"context"
	"net/http"
	"time"
)

// An examination costs the database a dozen statements and a connection.
const (
	examineInterval = 10 * time.Second // between two examinations, whatever the number of viewers
	examineTimeout  = 25 * time.Second // less than writeTimeout
)

// Check is one check of the database, with its result.
type Check struct {
	Name    string // as in the output of `oarlock doctor`: server_version
	State   string // ok, warn, fail or skip
	Message string // what the check found
	Hint    string // what to do about it; "": nothing
}

// Class returns the CSS class of the check's state: the class of a run state that looks the same.
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

// examined is the result of an examination, with the time at which it began.
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

// doctorPage is the content of the page of the newest examination.
type doctorPage struct {
	examined // without Checks if nothing was examined since the server began

	May bool // the page has a button that examines
}

// doctor shows the result of the newest examination, if there was one. It examines nothing itself: an examination writes to the
// database's disk, and a page of another site can make a browser send a GET.
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

// examineNow examines the database as `oarlock doctor` does, and redirects to the page with the result. It does not examine again
// if the last examination began less than examineInterval ago.
func (s *server) examineNow(r *http.Request) (answer, error) {
	if s.options.Doctor == nil {
		return answer{}, nothingHere(nil, r)
	}
	_, err := s.doctors.get(r.Context())
	return answer{To: "/doctor"}, err
}
