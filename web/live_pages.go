package web

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
)

// ticking matches durations that still grow. The script in the browser updates them, so they do not count as changes.
var ticking = regexp.MustCompile(`(<time [^>]*data-since="\d+"[^>]*>)[^<]*`)

func (s *server) liveRun(w http.ResponseWriter, r *http.Request) error {
	q, err := parseRunQuery(r)
	if err != nil {
		return err
	}
	return s.stream(w, r, s.runSource(q, s.readRun, "run.html", "run#head", "run#asked", "run#wrong", "run#tabs", "run#view"))
}

func (s *server) liveStep(w http.ResponseWriter, r *http.Request) error {
	q, err := parseStepQuery(r, stepKind)
	if err != nil {
		return err
	}
	return s.stream(w, r, s.runSource(q, s.readStepPage, "step.html"))
}

func (s *server) liveLogPage(w http.ResponseWriter, r *http.Request) error {
	q, err := parseStepQuery(r, logKind)
	if err != nil {
		return err
	}
	return s.stream(w, r, s.runSource(q, s.readStepPage, "log.html"))
}

// runSource returns the liveSource of a page about a run. It renders the given regions of file, and those of the panel, from the
// page that read returns. If the page shows the end of a log, new lines of it are sent alone, so that the lines that the user reads
// stay in place.
func (s *server) runSource(q runQuery, read func(context.Context, runQuery) (*runPage, error), file string, regions ...string) liveSource {
	logs := q.Task.Tab == panelTabs[0] && q.Task.Log.Find == "" && q.Task.Log.From == 0
	return liveSource{key: q.address(), run: q.ID, logs: logs, read: func(ctx context.Context) (*liveView, error) {
		p, err := read(ctx, q)
		if err != nil {
			return nil, err
		}
		v := &liveView{regions: map[string]string{}, over: p.Run.Over()}
		shown := slices.Clone(regions)
		if p.Panel != nil {
			shown = append(shown, "panel#head")
		}
		if p.Panel != nil && p.Panel.Items != nil && q.Task.Tab == panelTabs[0] {
			shown = append(shown, "panel#items")
		}
		return v, s.fill(v, p, file, logs, shown)
	}}
}

// addRegions renders regions of the template file into v.regions, and appends their names to v.order. It leaves out the text of
// durations that still grow, so that these do not count as changes.
func (s *server) addRegions(v *liveView, data any, file string, regions []string) error {
	for _, name := range regions {
		html, err := s.renderRegion(file, name, data)
		if err != nil {
			return err
		}
		v.regions[name], v.order = ticking.ReplaceAllString(html, "$1"), append(v.order, name)
	}
	return nil
}

// fill renders regions of a run's page into v. If logs is set and the page shows a log, it also sets v.log to its lines.
func (s *server) fill(v *liveView, p *runPage, file string, logs bool, regions []string) error {
	if err := s.addRegions(v, p, file, regions); err != nil {
		return err
	}
	if !logs || p.Panel == nil || p.Panel.Log == nil {
		return nil
	}
	log := p.Panel.Log
	v.log = &liveLog{attempt: log.Attempt, first: log.First, last: log.Last, lines: map[int64]string{}, count: p.LogRange()}
	for i := range log.Lines {
		html, err := s.renderRegion(file, "log#line", p.LogLine(log.Lines[i]))
		if err != nil {
			return err
		}
		v.log.lines[log.Lines[i].Number] = html
	}
	var err error
	v.log.whole, err = s.renderRegion(file, "log#lines", p)
	return err
}

func (s *server) liveRuns(w http.ResponseWriter, r *http.Request) error {
	f := filterOf(r.URL.Query())
	return s.stream(w, r, s.listSource(f.path(), "runs.html", []string{"runs#tiles", "runs#list"}, func(ctx context.Context) (any, error) {
		return s.listRuns(ctx, f)
	}))
}

func (s *server) liveApprovals(w http.ResponseWriter, r *http.Request) error {
	mine := r.URL.Query().Get("mine") != ""
	return s.stream(w, r, s.listSource(fmt.Sprint("approvals ", mine), "approvals.html", []string{"approvals#list"}, func(ctx context.Context) (any, error) {
		return s.readApprovals(ctx, mine)
	}))
}

// listSource returns the liveSource of a list, which renders regions of file from the data that read returns. Equal keys share one
// reader. The list is read every listInterval, because the database sends news only of single runs.
func (s *server) listSource(key, file string, regions []string, read func(context.Context) (any, error)) liveSource {
	return liveSource{key: key, read: func(ctx context.Context) (*liveView, error) {
		data, err := read(ctx)
		if err != nil {
			return nil, err
		}
		v := &liveView{regions: map[string]string{}}
		return v, s.addRegions(v, data, file, regions)
	}}
}
