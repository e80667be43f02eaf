package web

import (
	"context"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/web/draw"
)

const (
	dagsShown  = 50  // on a page of the list
	listStrip  = 30  // runs drawn for a DAG in the list
	pageStrip  = 100 // runs drawn on the page of a DAG
	usualShare = 0.95
)

// strip is the newest runs of a DAG, as a picture and as numbers.
type strip struct {
	Bars   template.HTML
	Runs   int
	Failed int

	Median, P95, Longest   time.Duration // of the runs that succeeded or failed, from start to end
	WaitMedian, WaitP95    time.Duration // of the runs that started, until their start
	Ended, Started, Active int
}

type dagRow struct {
	*queue.DAG

	Path  string
	Strip strip
}

type dagsData struct {
	Rows    []dagRow
	Find    string
	Command string
	Next    string // path of the next page; "": this page is the last
}

func dagPath(name string) string { return "/dags/" + url.PathEscape(name) }

// listDAGs shows one page of the DAGs: by name, the removed ones last, and only those that match the text q of the query.
func (s *server) listDAGs(w http.ResponseWriter, r *http.Request) error {
	form := r.URL.Query()
	data, err := s.readDAGs(r.Context(), form.Get("q"), queue.DAGKey{Removed: form.Get("removed") != "", Name: form.Get("after")})
	if err != nil {
		return err
	}
	return s.render(w, r, "dags.html", page{Title: "DAGs", Nav: "dags", Data: data})
}

func (s *server) readDAGs(ctx context.Context, find string, after queue.DAGKey) (*dagsData, error) {
	kept, err := s.store.DAGPage(ctx, queue.DAGFilter{Find: find, After: after, Limit: dagsShown + 1})
	if err != nil {
		return nil, err
	}
	data := &dagsData{Find: find, Command: "oarlock dag list"}
	if len(kept) > dagsShown {
		kept = kept[:dagsShown]
		last := &kept[dagsShown-1]
		next := url.Values{"q": {find}, "after": {last.Name}}
		if !last.RemovedAt.IsZero() {
			next.Set("removed", "1")
		}
		data.Next = "/dags?" + next.Encode()
	}
	names := make([]string, len(kept))
	for i := range kept {
		names[i] = kept[i].Name
	}
	strips, err := s.store.Strips(ctx, names, listStrip)
	if err != nil {
		return nil, err
	}
	for i := range kept {
		data.Rows = append(data.Rows, dagRow{DAG: &kept[i], Path: dagPath(kept[i].Name), Strip: s.stripOf(strips[kept[i].Name])})
	}
	return data, nil
}

// stripOf draws a bar for each run, and computes the numbers of the strip. The durations from start to end leave out runs that have
// not ended, canceled runs, and runs that never started.
func (s *server) stripOf(runs []queue.StripRun) strip {
	p := strip{Runs: len(runs)}
	bars := make([]draw.StripBar, len(runs))
	var took, waited []time.Duration
	for i := range runs {
		r := &runs[i]
		title, long := fmt.Sprintf("#%d %s", r.ID, r.State), time.Duration(0)
		if !r.StartedAt.IsZero() {
			waited = append(waited, r.Waited)
		}
		switch {
		case r.EndedAt.IsZero():
			p.Active++
		case !r.StartedAt.IsZero() && r.State != "canceled":
			long = r.EndedAt.Sub(r.StartedAt)
			took = append(took, long)
			title += ", " + runview.Span(long)
		}
		if r.State == "failed" {
			p.Failed++
		}
		bars[i] = draw.StripBar{Class: barClass(r.State), Title: title, Link: s.options.Base + runPath(r.ID), Took: long}
	}
	p.Bars, p.Ended, p.Started = draw.Strip(bars), len(took), len(waited)
	slices.Sort(took)
	slices.Sort(waited)
	p.Median, p.P95, p.WaitMedian, p.WaitP95 = quantile(took, 0.5), quantile(took, usualShare), quantile(waited, 0.5), quantile(waited, usualShare)
	p.Longest = quantile(took, 1)
	return p
}

// quantile returns a quantile of sorted values by the nearest rank. A share of 0.5 gives the median, 0.95 the value that 95 percent
// of the values do not exceed, and 1 the largest value. It returns 0 if there are no values.
func quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}
