package web

import (
	"net/http"
	"strings"
)

// jump redirects from a word in the search box: a number leads to that run, NAME=VALUE to the runs with that label, and any other
// word to the runs of the DAG of that name. KEY:VALUE words are a filter.
func (s *server) jump(w http.ResponseWriter, r *http.Request) error {
	word := strings.TrimSpace(r.URL.Query().Get("q"))
	if word == "" {
		s.redirect(w, r, "/runs")
		return nil
	}
	if id, err := runNumber("run", word); err == nil {
		s.redirect(w, r, runPath(id))
		return nil
	}
	if strings.Contains(word, "=") && !strings.ContainsAny(word, ": ") { // no DAG's name has an equals sign
		f := runFilter{Labels: []string{word}}
		s.redirect(w, r, f.path())
		return nil
	}
	return s.search(w, r, runFilter{}, word)
}
