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

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
)

//go:embed template/*.html
var templates embed.FS

const (
	layoutFile = "layout.html"
	partFiles  = "part_*.html" // shared by several pages
)

// page is the content of one page. Data is for the page's own template, the other fields for the frame.
type page struct {
	Title  string
	Nav    string  // entry of the navigation that is marked as current: runs, approvals, queues, workers
	Crumbs []crumb // above the title
	Live   string  // path of the page's stream, below the base; "": the page has none
	Bare   bool    // leave out the navigation, because the reader has not signed in
	Data   any
}

// crumb is one link of the path above a page's title. The last crumb has no Path.
type crumb struct{ Name, Path string }

// frame is a page with the parts that all pages share.
type frame struct {
	page

	Theme     string // auto, light or dark
	Here      string // the page's own path with its query, below the base
	Name      string
	Version   string
	Now       time.Time
	Approvals int // that wait for a decision of the login; 0 if the number is not known
	Many      bool
	NoFleet   bool  // the login cannot see queues and workers
	Approver  bool  // the login has approvals and nothing else
	Doctor    bool  // the server has a page of checks
	User      *user // the user that signed in; nil where there is no sign-in
	SignOut   bool  // show the button that ends the session
}

// pages holds the templates of each page, with the layout, by file name.
type pages map[string]*template.Template

// parsePages parses all templates, and returns one for each page by file name, with the layout and the shared parts. It fails on a
// wrong template, so that a server with one does not start.
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

// render answers with status 200 and the page p. name is the file of the page's template.
func (s *server) render(w http.ResponseWriter, r *http.Request, name string, p page) error {
	return s.renderStatus(w, r, http.StatusOK, name, p)
}

// renderStatus answers with the status and the page p, in the frame that all pages share. It renders the page completely before it
// sends any of it: if that fails, it returns the error and the caller can still answer with an error page.
func (s *server) renderStatus(w http.ResponseWriter, r *http.Request, status int, name string, p page) error {
	f := frame{
		page: p, Theme: themeOf(r), Here: s.here(r), Name: s.options.Name, Version: s.options.Version, Now: time.Now(), Doctor: s.options.Doctor != nil,
		User: userOf(r.Context()), SignOut: s.signOut,
	}
	if status < http.StatusInternalServerError && s.store != nil { // at 500 and above the database may be away, so it is not asked
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
	_, _ = w.Write(b.Bytes()) // the client may have gone, so an error is ignored
	return nil
}

// renderRegion renders the region called name of a template file, such as runs#list of runs.html, from the page's data.
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

// here returns the path and query of a request, below the base.
func (s *server) here(r *http.Request) string {
	to := strings.TrimPrefix(r.URL.EscapedPath(), s.options.Base)
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	return to
}

// funcs are the functions of templates. path does not escape its route, so templates pass each part that is data through seg.
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
		"about": func(in dagspec.Param) string { return runview.AboutInput(&in) },
		"once":  once,
	}
}

// queryOf encodes pairs as a query: a name, its value, the next name, and so on. It leaves out nil and zero values such as "" and
// 0. A []string gives its name one value for each text. It fails if the pairs are odd in number, or a name is no string.
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
