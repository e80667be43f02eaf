package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
)

//go:embed template/*.html
var templates embed.FS

const (
	layoutFile = "layout.html"
	partFiles  = "part_*.html" // shared by several pages
)

// page is what one page shows. Data is for its own template, the rest for the frame around it.
type page struct {
	Title  string
	Nav    string  // the entry of the navigation that is marked as current: runs, approvals, queues, workers
	Crumbs []crumb // above the title
	Live   string  // path of the page's stream, below the base; "": the page does not change by itself
	Bare   bool    // its reader has not signed in: no navigation stands above it
	Data   any
}

// crumb is one step of the way to a page. The last has no Path.
type crumb struct{ Name, Path string }

// frame is a page with what stands around all of them.
type frame struct {
	page

	Theme     string // auto, light or dark
	Here      string // the page's own path with its query, below the base
	Name      string
	Version   string
	Now       time.Time
	Approvals int // that wait for the server's login; 0 where that is not known
	Many      bool
	NoFleet   bool  // the login may not see queues and workers
	Approver  bool  // the login has approvals and nothing else
	Doctor    bool  // there is a page of it
	User      *user // who has signed in; nil where nobody does
	SignOut   bool  // a session can be ended
}

// pages has the templates of each page by the name of its file, the layout with it.
type pages map[string]*template.Template

// parsePages reads all templates, so that one that is wrong keeps the server from starting.
func (s *server) parsePages() (pages, error) {
	layout, err := template.New(layoutFile).Funcs(s.funcs()).Option("missingkey=error").ParseFS(templates, "template/"+layoutFile, "template/"+partFiles)
	if err != nil {
		return nil, fmt.Errorf("read the layout: %w", err)
	}
	names, err := fs.Glob(templates, "template/*.html")
	if err != nil {
		return nil, fmt.Errorf("list the templates: %w", err)
	}
	all := pages{}
	for _, name := range names {
		base := strings.TrimPrefix(name, "template/")
		if base == layoutFile || strings.HasPrefix(base, "part_") {
			continue
		}
		own, err := layout.Clone()
		if err == nil {
			own, err = own.ParseFS(templates, name)
		}
		if err != nil {
			return nil, fmt.Errorf("read template %s: %w", base, err)
		}
		all[base] = own
	}
	return all, nil
}

// render answers with a page.
func (s *server) render(w http.ResponseWriter, r *http.Request, name string, p page) error {
	return s.renderStatus(w, r, http.StatusOK, name, p)
}

// renderStatus answers with a page once all of it is made, so that a template that fails becomes an error page.
func (s *server) renderStatus(w http.ResponseWriter, r *http.Request, status int, name string, p page) error {
	f := frame{
		page: p, Theme: themeOf(r), Here: s.here(r), Name: s.options.Name, Version: s.options.Version, Now: time.Now(), Doctor: s.options.Doctor != nil,
		User: userOf(r.Context()), SignOut: s.signOut,
	}
	if status < http.StatusInternalServerError && s.store != nil { // else the database may be away
		if g, err := s.glances.get(r.Context()); err == nil {
			f.Approvals, f.Many, f.NoFleet, f.Approver = g.Approvals, g.Many, !g.Seen, g.Rights.OnlyApproves()
		}
	}
	var b bytes.Buffer
	if err := s.pages[name].ExecuteTemplate(&b, layoutFile, f); err != nil {
		return fmt.Errorf("render %s: %w", name, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a client that has gone needs no answer
	return nil
}

// renderRegion makes one region of a page from the data that the page has: runs#list of runs.html.
func (s *server) renderRegion(file, name string, data any) (string, error) {
	own, ok := s.pages[file]
	if !ok {
		return "", fmt.Errorf("render region %s: there is no template %s", name, file)
	}
	var b strings.Builder
	if err := own.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("render region %s: %w", name, err)
	}
	return b.String(), nil
}

// here is the path and query of a request, below the base.
func (s *server) here(r *http.Request) string {
	to := strings.TrimPrefix(r.URL.EscapedPath(), s.options.Base)
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	return to
}

// funcs are what templates call. Paths are escaped already; a part of a path that is data goes through seg.
func (s *server) funcs() template.FuncMap {
	return template.FuncMap{
		"path":  s.below,
		"seg":   url.PathEscape,
		"asset": func(name string) (string, error) { return s.assets.path(s.options.Base, name) },
		"when":  when,
		"clock": clock,
		"since": since,
		"span":  runview.Span,
		"pill":  pill,
		"glyph": glyph,
		"copy":  copyButton,
		"num":   num,
		"sign":  signOf,
		"words": runview.InlineText,
		"once":  once,
	}
}

// queryOf is a query of pairs of name and value.
func queryOf(pairs []any) (string, error) {
	if len(pairs)%2 != 0 {
		return "", fmt.Errorf("a path's query has pairs of name and value, not %d words", len(pairs))
	}
	query := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		name, ok := pair[0].(string)
		if !ok {
			return "", fmt.Errorf("the name %v of a path's query is no text", pair[0])
		}
		switch v := pair[1].(type) {
		case nil:
		case []string:
			query[name] = append(query[name], v...)
		default:
			if !reflect.ValueOf(v).IsZero() {
				query.Add(name, fmt.Sprint(v))
			}
		}
	}
	return query.Encode(), nil
}
