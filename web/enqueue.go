package web

import (
	"context"
	"encoding/base32"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// Names of form fields other than params.
const (
	keyName      = "run.key"
	atName       = "run.at"
	priorityName = "run.priority"
	queueName    = "run.queue"
	labelsName   = "run.labels"
	latestName   = "latest"
	fromName     = "from"
)

// Run keys that the server makes for forms without one.
const (
	keyPrefix     = "web-"
	formKeyLength = 26 // characters of base32, 130 bits
)

// enqueuePath returns the path of the form that enqueues a run of a DAG.
func enqueuePath(dag string) string { return dagPath(dag) + "/enqueue" }

// enqueueForm is the form that enqueues a run of a DAG, or runs an ended run again.
type enqueueForm struct {
	DAG     string
	Run     *queue.Run // the ended run to run again; nil: the form enqueues a first run
	Latest  bool       // use the DAG's current version rather than the version of Run
	Params  []*formField
	Options []*formField
	Command string // the command with the same effect; "": there is none
	SQL     string // "": a field is wrong
	Problem *refusal

	spec    *dagspec.Spec     // nil: the login cannot read the DAG
	before  map[string]string // params of Run
	given   map[string]string
	typed   map[string]any
	request queue.Request
}

func (f *enqueueForm) page() page {
	p := page{Title: f.Title() + " " + f.DAG, Nav: "runs", Data: f, Crumbs: []crumb{{"Runs", "/runs"}, {f.DAG, (&runFilter{DAG: f.DAG}).path()}}}
	if f.Run != nil {
		p.Crumbs = append(p.Crumbs, crumb{fmt.Sprint(f.Run.ID), f.Back()})
	} else if f.spec != nil {
		p.Nav, p.Crumbs = "dags", []crumb{{"DAGs", "/dags"}, {f.DAG, f.Back()}}
	}
	p.Crumbs = append(p.Crumbs, crumb{f.Title(), ""})
	return p
}

// Title returns the heading of the form.
func (f *enqueueForm) Title() string {
	if f.Run != nil {
		return fmt.Sprintf("Run %d again", f.Run.ID)
	}
	return "Enqueue"
}

// Path returns the path of the form, which is also its action.
func (f *enqueueForm) Path() string {
	if f.Run != nil {
		return runPath(f.Run.ID) + "/again"
	}
	return enqueuePath(f.DAG)
}

// Back returns the path of the page that links to the form.
func (f *enqueueForm) Back() string {
	if f.Run != nil {
		return runPath(f.Run.ID)
	}
	if f.spec != nil {
		return dagPath(f.DAG)
	}
	return (&runFilter{DAG: f.DAG}).path()
}

// Opens reports whether the page shows the options unfolded: it does so if an option has a value.
func (f *enqueueForm) Opens() bool {
	return slices.ContainsFunc(f.Options, func(o *formField) bool { return o.Value != "" })
}

// Given reports whether the request of this form would carry a param or an option. A param that still has its value in Run is not
// carried.
func (f *enqueueForm) Given() bool { return len(f.given) > 0 || f.Opens() }

// mayEnqueue returns the rights of the login, or a refusal if it is not allowed to enqueue runs.
func (s *server) mayEnqueue(ctx context.Context) (queue.Rights, error) {
	rights, err := s.readRights(ctx)
	if err != nil {
		return rights, err
	}
	if !rights.Submit {
		return rights, &refusal{
			status: http.StatusForbidden, message: "This login lacks the right to ask for runs.",
			hint: "Have an administrator grant oarlock_submit to this login; a server with --read-only asks for no runs.",
		}
	}
	return rights, nil
}

// currentSpec reads the spec of a DAG's current version; nil without an error if the login is not allowed to read it.
func (s *server) currentSpec(ctx context.Context, dag string) (*dagspec.Spec, error) {
	return specIn(s.readDefinition(ctx, dag, 0))
}

// specIn returns the spec of def, or nil if def is nil, and err as it is. It takes both results of readDefinition or definition.
func specIn(def *queue.Definition, err error) (*dagspec.Spec, error) {
	if def == nil {
		return nil, err
	}
	return def.Spec, err
}

// readEnqueue makes the form that enqueues a run of the DAG in the path. The fields have the texts in values. If values names a run
// as from, params that values lacks have the values of that run, which must be of the same DAG. A wrong text is no error: it
// becomes the Problem of its field, by check. A login that is not allowed to enqueue runs gets a refusal.
func (s *server) readEnqueue(r *http.Request, values url.Values) (*enqueueForm, error) {
	rights, err := s.mayEnqueue(r.Context())
	if err != nil {
		return nil, err
	}
	f := &enqueueForm{DAG: r.PathValue("dag")}
	if f.spec, err = s.currentSpec(r.Context(), f.DAG); err != nil {
		return nil, err
	}
	var begin map[string]string
	if from := values.Get(fromName); from != "" {
		id, err := strconv.ParseInt(from, 10, 64)
		if err != nil {
			return nil, badQuery(fromName, from)
		}
		run, err := s.store.Get(r.Context(), queue.RunID(id))
		if err != nil {
			return nil, err
		}
		if run.DAG != f.DAG {
			return nil, &refusal{status: http.StatusBadRequest, message: fmt.Sprintf("Run %d is of another DAG.", id), hint: "Leave out from=" + from + "."}
		}
		begin = paramTexts(run.Params, f.spec)
	}
	f.fill(values, begin)
	f.addOptions(values, rights)
	f.check(time.Now())
	return f, nil
}

// readAgain makes the form for a new run like the run in the path, which must have ended. Params that values lacks keep the values
// of that run. With latest in values, the new run uses the DAG's current version. A wrong text is no error: it becomes the Problem
// of its field, by check. A login that is not allowed to enqueue runs gets a refusal.
func (s *server) readAgain(r *http.Request, values url.Values) (*enqueueForm, error) {
	if _, err := s.mayEnqueue(r.Context()); err != nil {
		return nil, err
	}
	id, err := parseRunID(r)
	if err != nil {
		return nil, err
	}
	f := &enqueueForm{Latest: values.Get(latestName) != ""}
	if f.Run, err = s.store.Get(r.Context(), id); err != nil {
		return nil, err
	}
	if !f.Run.Over() {
		return nil, &refusal{status: http.StatusConflict, message: fmt.Sprintf("Run %d has not ended.", id), hint: "Wait for the end of the run, or cancel the run first."}
	}
	f.DAG = f.Run.DAG
	if f.Latest {
		f.spec, err = s.currentSpec(r.Context(), f.DAG)
	} else {
		f.spec, err = specIn(s.definition(r.Context(), f.DAG, f.Run.Version))
	}
	if err != nil {
		return nil, err
	}
	f.before = paramTexts(f.Run.Params, f.spec)
	f.fill(values, f.before)
	f.check(time.Now())
	return f, nil
}

// fill appends a field to f.Params for each param of f.spec. The field shows the text that values has for the param, under NAME or
// param.NAME, or else the text in begin.
//
// It sets f.given to the texts that the request will carry. A text that equals the one in f.before is not carried. An empty text is
// carried only if the user emptied a string without choices that f.before has. Params in values that f.spec does not know are
// carried, so that check reports them. Without f.spec, fillLoose does all of this with one field.
func (f *enqueueForm) fill(values url.Values, begin map[string]string) {
	texts := map[string]string{}
	for name := range values {
		param, ok := strings.CutPrefix(name, paramPrefix)
		if ok || !slices.Contains([]string{fromName, latestName, onceField, looseName}, name) && !strings.HasPrefix(name, "run.") {
			texts[param] = sentText(values.Get(name))
		}
	}
	if f.spec == nil {
		f.fillLoose(values, begin, texts)
		return
	}
	f.given = map[string]string{}
	for i := range f.spec.ParamDefs {
		p := &f.spec.ParamDefs[i]
		field := paramField(p, paramPrefix)
		text, sent := texts[p.Name]
		delete(texts, p.Name)
		if !sent {
			text = begin[p.Name]
		}
		if p.Type != "string" && len(p.Enum) == 0 {
			text = strings.TrimSpace(text)
		}
		was, had := f.before[p.Name]
		if had {
			field.Required, field.Usual, field.Kept = false, was, true
		}
		field.set(text)
		f.Params = append(f.Params, field)
		emptied := had && sent && p.Type == "string" && field.Kind != choiceField
		if (text != "" || emptied) && (!had || text != sentText(was)) {
			f.given[p.Name] = text
		}
	}
	maps.Copy(f.given, texts) // params that the spec does not know stay: check reports them
}

// fillLoose sets f.Params to one field with a line NAME=VALUE per param, for a login that is not allowed to read the types of the
// params. The field shows the lines that values has for it. If values has no such field, it shows the params in begin, in which a
// param in texts replaces the one of the same name. It leaves out a value of several lines, and reports this as a Problem of the
// field, unless f.Run is set: the new run then keeps that value.
//
// It sets f.given to the params of the field that differ from the ones in f.before. If a line is not NAME=VALUE, or a name
// occurs twice, the field gets a Problem and f.given is empty.
func (f *enqueueForm) fillLoose(values url.Values, begin, texts map[string]string) {
	field := &formField{
		Name: looseName, Label: "Params", Kind: linesField, Usual: "NAME=VALUE",
		Help: "Write each param on a line, as NAME=VALUE. Write a list or an object as JSON. This login lacks the right to see the params of the DAG; the database checks the values.",
	}
	f.Params = []*formField{field}
	var err error
	if values.Has(looseName) {
		field.set(sentText(values.Get(looseName)))
	} else {
		all := map[string]string{}
		for _, some := range []map[string]string{begin, texts} {
			maps.Copy(all, some)
		}
		var lines string
		lines, err = pairLines(all)
		field.set(lines)
		if f.Run != nil {
			err = nil // the params that were left out keep the values of Run
		}
	}
	pairs, wrong := readPairs(field.Value)
	if err = errors.Join(err, wrong); err != nil {
		field.Problem = err.Error()
	}
	f.given = map[string]string{}
	for name, text := range pairs {
		if was, had := f.before[name]; !had || was != text {
			f.given[name] = text
		}
	}
}

// addOptions appends a field to f.Options for each option, with the text in values. If neither the DAG nor the rights allow a queue
// of the user's choice, it leaves out the field for the queue, unless values has a text for it: the database then refuses the
// request. If they do not allow a priority either, its field ends at the DAG's own priority.
func (f *enqueueForm) addOptions(values url.Values, rights queue.Rights) {
	free := rights.Admin || f.spec == nil
	add := func(o *formField, offered bool) {
		value := sentText(values.Get(o.Name))
		if o.Name != labelsName {
			value = strings.TrimSpace(value)
		}
		if o.set(value); offered || value != "" {
			f.Options = append(f.Options, o)
		}
	}
	add(&formField{Name: keyName, Label: "Run key", Kind: textField, Help: "The same request with the same key makes only one run. Without a key, this form uses a key of its own."}, true)
	add(&formField{Name: atName, Label: "Not before", Kind: textField, Usual: "+10m, or 2026-11-20 06:00", Help: "A time without an offset is in the time zone of this server."}, true)
	highest := "100"
	if !free && !f.spec.Allow.Priority {
		highest = strconv.Itoa(f.spec.Priority)
	}
	add(&formField{Name: priorityName, Label: "Priority", Kind: numberField, Min: "-100", Max: highest, Step: "1", Help: "A run with a higher priority starts first."}, true)
	add(&formField{Name: queueName, Label: "Queue", Kind: textField}, free || f.spec.Allow.Queue)
	add(&formField{Name: labelsName, Label: "Labels", Kind: linesField, Usual: "team=data", Help: "Write each label on a line, as NAME=VALUE."}, true)
}

// check parses the fields into f.typed and f.request, and sets the Problem of each wrong field. It sets f.Command and f.SQL to the
// command and the statement with the effect of the form; f.SQL is "" if a field is wrong.
func (f *enqueueForm) check(now time.Time) {
	f.checkParams()
	f.request = queue.Request{DAG: f.DAG, Params: f.typed, Manual: true}
	for _, o := range f.Options {
		if err := f.readOption(o, now); err != nil && o.Value != "" {
			o.Problem = err.Error()
		}
	}
	if f.Run != nil {
		f.Command, f.SQL = runview.RerunCommand(f.Run.ID, f.given, f.Latest), runview.RerunStatement(f.Run.ID, f.typed, f.Latest)
	} else {
		f.Command, f.SQL = runview.EnqueueCommand(&f.request, f.given), runview.EnqueueStatement(&f.request)
	}
	if f.Wrong() {
		f.SQL = ""
	}
}

// checkParams sets f.typed to the values of f.given, by the types in f.spec if it is known. A wrong param sets the Problem of its
// field, or of the form if it has no field; f.typed then has guessed types.
func (f *enqueueForm) checkParams() {
	if f.typed = runview.LooseParams(f.given); f.spec == nil {
		return
	}
	typed, err := runview.TypedParams(f.spec, f.given, f.Run != nil)
	if err == nil {
		f.typed = typed
		return
	}
	problems, _ := errors.AsType[dagspec.ParamErrors](err)
	for _, p := range problems {
		at := slices.IndexFunc(f.Params, func(field *formField) bool { return field.Name == paramPrefix+p.Name })
		if at >= 0 {
			f.Params[at].Problem = p.Msg
		} else {
			f.Problem = &refusal{status: http.StatusUnprocessableEntity, message: fmt.Sprintf("Param %s: %s.", runview.InlineText(p.Name), p.Msg), hint: p.Hint}
		}
	}
}

// readOption parses the text of an option into its field of f.request. An empty text changes nothing, so that the DAG decides. The
// error is for the user to read.
func (f *enqueueForm) readOption(o *formField, now time.Time) (err error) {
	if o.Value == "" {
		return nil
	}
	switch o.Name {
	case keyName:
		f.request.Key = o.Value
	case queueName:
		f.request.Queue = o.Value
	case priorityName:
		n, err := strconv.Atoi(o.Value)
		if err != nil {
			return errors.New("must be a whole number from -100 to 100")
		}
		f.request.Priority = &n
	case labelsName:
		f.request.Labels, err = readPairs(o.Value)
	case atName:
		at, ok, err := runview.ReadUpcoming(o.Value, now, time.Local)
		if err != nil || !ok {
			return errors.New("must be a time, as 2026-11-20 06:00 or 2026-11-20T06:00:00Z, or a duration from now on, as +10m")
		}
		f.request.RunAt = at
	}
	return err
}

// Wrong reports whether a field must be corrected before the form can be sent.
func (f *enqueueForm) Wrong() bool {
	isWrong := func(field *formField) bool { return field.Problem != "" }
	return f.Problem != nil || slices.ContainsFunc(f.Params, isWrong) || slices.ContainsFunc(f.Options, isWrong)
}

// quiet removes the problems of params, so that a form that was just opened does not complain of empty required fields.
func (f *enqueueForm) quiet() {
	for _, p := range f.Params {
		p.Problem = ""
	}
}

func (s *server) enqueuePage(w http.ResponseWriter, r *http.Request) error {
	return s.showEnqueue(w, r, s.readEnqueue)
}

func (s *server) againPage(w http.ResponseWriter, r *http.Request) error {
	return s.showEnqueue(w, r, s.readAgain)
}

func (s *server) showEnqueue(w http.ResponseWriter, r *http.Request, read func(*http.Request, url.Values) (*enqueueForm, error)) error {
	f, err := read(r, r.URL.Query())
	if err != nil {
		return err
	}
	if !f.Given() {
		f.quiet()
	}
	return s.render(w, r, "enqueue.html", f.page())
}

// enqueue enqueues a run, and redirects to it. Without a run key of the user's own, the key is a hash of all fields: when the
// reply was lost and the browser sends the form again, no second run is made. A changed form has another key, and makes a new
// run.
func (s *server) enqueue(r *http.Request) (answer, error) {
	f, err := s.readEnqueue(r, r.PostForm)
	if err != nil {
		return answer{}, err
	}
	if f.request.Key == "" {
		f.request.Key = formKey(r)
	}
	return f.send(func() (queue.RunID, error) { return s.store.Enqueue(r.Context(), f.request) })
}

// formKey returns the run key for a form in which the user gave none. A form with a nonce gets a hash of its path and fields, so
// that it has the same key when it is sent again. A form without a nonce gets a new key each time.
func formKey(r *http.Request) string {
	if r.PostForm.Get(onceField) == "" {
		return keyPrefix + strings.ToLower(newNonce())
	}
	sum := formSum(r)
	return keyPrefix + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:formKeyLength])
}

// again makes a new run like a run that has ended, and redirects to the new run.
func (s *server) again(r *http.Request) (answer, error) {
	f, err := s.readAgain(r, r.PostForm)
	if err != nil {
		return answer{}, err
	}
	return f.send(func() (queue.RunID, error) { return s.store.Rerun(r.Context(), f.Run.ID, f.typed, f.Latest) })
}

// send calls ask, which makes the run, and redirects to that run. If a field is wrong, it shows the form again without a call. It
// also shows the form again, with the error, if ask returns an error that the user can correct. It returns any other error.
func (f *enqueueForm) send(ask func() (queue.RunID, error)) (answer, error) {
	if !f.Wrong() {
		id, err := ask()
		if err == nil {
			return answer{To: runPath(id)}, nil
		}
		if f.Problem = correctable(err); f.Problem == nil {
			return answer{}, err
		}
	}
	return answer{File: "enqueue.html", Page: f.page(), Status: http.StatusUnprocessableEntity}, nil
}
