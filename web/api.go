package web

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	apiPrefix = "/api/"
	apiRoot   = apiPrefix + "v1" // the next version begins when a change would break clients of this one
	jsonType  = "application/json"
)

//go:embed openapi.yaml
var apiDocument []byte

// apiRoute is one path and method of the JSON API.
type apiRoute struct {
	method, path string
	query        []string // names of parameters that the query may have
	do           pageFunc
}

// apiList is the JSON of one part of a list.
type apiList[T any] struct {
	Items []T     `json:"items"`
	Next  *string `json:"next"` // where the next part begins; null: this part is the last
}

func (s *server) apiRoutes() []apiRoute {
	routes := []apiRoute{
		{http.MethodGet, "/openapi.yaml", nil, s.apiSelf},
		{http.MethodGet, "/runs", []string{"state", "dag", "queue", "label", "since", "parent", "before", "limit"}, s.apiRuns},
		{http.MethodGet, "/runs/{run}", nil, s.apiRun},
		{http.MethodGet, "/runs/{run}/tasks", []string{"step", "state", "item", "after", "limit"}, s.apiTasks},
		{http.MethodGet, "/runs/{run}/events", []string{"before"}, s.apiEvents},
		{http.MethodGet, "/runs/{run}/stream", nil, s.apiStream},
		{http.MethodGet, "/runs/{run}/steps/{step}", []string{"item"}, s.apiTask},
		{http.MethodGet, "/runs/{run}/steps/{step}/log", []string{"item", "attempt", "from", "limit"}, s.apiLog},
		{http.MethodGet, "/dags", []string{"all"}, s.apiDAGs},
		{http.MethodGet, "/queues", nil, s.apiQueues},
		{http.MethodGet, "/pools", nil, s.apiPools},
		{http.MethodGet, "/workers", []string{"all"}, s.apiWorkers},
		{http.MethodGet, "/stats", []string{"since", "dag"}, s.apiStats},
		{http.MethodPost, "/runs", nil, s.apiAct(s.apiEnqueue)},
	}
	for _, verb := range steerVerbs {
		routes = append(routes, apiRoute{http.MethodPost, "/runs/{run}/" + verb.String(), nil, s.apiAct(s.apiAsk(verb))})
	}
	return routes
}

// routeAPI registers the routes of apiRoutes. They refuse a query with a name that is not in apiRoute.query. Any other GET or POST
// below apiPrefix gets an error as JSON: 405 if the path exists with another method, else 404.
func (s *server) routeAPI(mux *http.ServeMux) {
	handle := func(method, path string, do pageFunc) { s.handle(mux, method, path, do) }
	methods := map[string][]string{}
	for _, route := range s.apiRoutes() {
		methods[route.path] = append(methods[route.path], route.method)
		handle(route.method, apiRoot+route.path, func(w http.ResponseWriter, r *http.Request) error {
			if err := checkNames(r.URL.Query(), route.query); err != nil {
				return err
			}
			return route.do(w, r)
		})
	}
	all := []string{http.MethodGet, http.MethodPost}
	for path, served := range methods {
		for _, method := range all {
			if !slices.Contains(served, method) {
				handle(method, apiRoot+path, func(w http.ResponseWriter, _ *http.Request) error {
					w.Header().Set("Allow", strings.Join(served, ", "))
					return &refusal{status: http.StatusMethodNotAllowed, message: "This path is not for " + method + "."}
				})
			}
		}
	}
	for _, method := range all {
		handle(method, apiPrefix, func(http.ResponseWriter, *http.Request) error {
			return &refusal{status: http.StatusNotFound, message: "This path does not exist.", hint: "GET " + s.options.Base + apiRoot + "/openapi.yaml names all paths."}
		})
	}
}

// isAPI reports whether a request is for the JSON API rather than for a page.
func (s *server) isAPI(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, s.options.Base+apiPrefix)
}

// apiSelf answers with the OpenAPI document of the JSON API.
func (s *server) apiSelf(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(apiDocument)
	return nil
}

// checkNames refuses a query with a name that is not in names. Otherwise a filter with a misspelled name would be ignored, and the
// list would have all rows.
func checkNames(query url.Values, names []string) error {
	for name := range query {
		if !slices.Contains(names, name) {
			refused := &refusal{status: http.StatusBadRequest, message: fmt.Sprintf("There is no %q in this query.", name), hint: "It may have " + strings.Join(names, ", ") + "."}
			if len(names) == 0 {
				refused.hint = "This path takes no query."
			}
			return refused
		}
	}
	return nil
}

// countIn parses the number called name in a query. It returns 0 if the query has no such name, or no text for it, and a refusal if
// the text is not a number from 1 to most.
func countIn(query url.Values, name string, most int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, badFilter("%s is from 1 to %d, not %q", name, most, text)
	}
	return n, nil
}

func boolIn(query url.Values, name string) (bool, error) {
	text := query.Get(name)
	if text == "" {
		return false, nil
	}
	set, err := strconv.ParseBool(text)
	if err != nil {
		return false, badFilter("%s is true or false, not %q", name, text)
	}
	return set, nil
}

func apiRunID(r *http.Request) (queue.RunID, error) {
	id, err := strconv.ParseInt(r.PathValue("run"), 10, 64)
	if err != nil || id < 1 {
		return 0, &refusal{status: http.StatusNotFound, message: "This run does not exist.", hint: "A run is a number, like 41."}
	}
	return queue.RunID(id), nil
}

func answerJSON(w http.ResponseWriter, status int, v any) error {
	text, err := runview.EncodeJSON(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") //nolint:gosec // the content type is JSON, so a browser does not take it for markup
	return nil
}

// apiAct wraps do, which changes something, and logs its outcome. It refuses every request if Options.ReadOnly is set. It also
// refuses a request without the content type of JSON, which a form of another site cannot send; the guard refuses such forms, too.
// do reads at most maxFormBytes of the body.
func (s *server) apiAct(do pageFunc) pageFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		err := s.mayAct(r)
		if err == nil {
			r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
			err = do(w, r)
		}
		s.logAction(w, r, answer{}, err)
		return err
	}
}

func (s *server) mayAct(r *http.Request) error {
	if s.options.ReadOnly {
		return &refusal{status: http.StatusForbidden, message: "This server only reads.", hint: "`oarlock web` without --read-only also takes actions."}
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != jsonType {
		return &refusal{status: http.StatusUnsupportedMediaType, message: "The body must be JSON.", hint: "Send the header Content-Type: " + jsonType + "."}
	}
	return nil
}

// readBody decodes the body of a request, one JSON object, into the struct that into points to. An empty body leaves the struct as
// it is. readBody returns a refusal for a field that the struct lacks, for text after the object, and for any other body that it
// cannot decode.
func readBody(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		var more json.RawMessage
		if err = d.Decode(&more); errors.Is(err, io.EOF) {
			return nil
		} else if err == nil {
			err = errors.New("text follows the end of the JSON value")
		}
	}
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return &refusal{status: http.StatusRequestEntityTooLarge, message: "The body is longer than 1 MiB.", hint: "Store the data elsewhere, and pass a reference."}
	}
	why := strings.TrimPrefix(err.Error(), "json: ")
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		why = fmt.Sprintf("%s cannot be a %s", wrong.Field, wrong.Value)
		if wrong.Field == "" {
			why = "the body must be an object, not a " + wrong.Value
		}
	}
	return &refusal{status: http.StatusBadRequest, message: "The body cannot be read: " + runview.InlineText(why) + ".", hint: "GET " + apiRoot + "/openapi.yaml says what each path takes."}
}
