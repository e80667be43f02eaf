package dagspec

import "github.com/oarlock-dev/oarlock/dagrun"

// builtin describes an action that Oarlock has itself. The schema describes its `with`, under with.NAME.
type builtin struct {
	body     dagrun.Body
	required []string          // keys of with that the action needs
	outputs  map[string]string // outputs that the action always has, by name, with their types
}

var builtins = map[string]*builtin{
	"noop":     {body: dagrun.BodyNoop},
	"wait":     {body: dagrun.BodyWait, required: []string{"duration", "until", "http"}},
	"approval": {body: dagrun.BodyApproval},
	"dag.run":  {body: dagrun.BodyChild, required: []string{"dag"}, outputs: map[string]string{"run_id": "number"}},
	"dag.enqueue": {
		required: []string{"dag"},
		outputs:  map[string]string{"run_id": "number"},
	},
	"river.job": {
		required: []string{"kind"},
		outputs:  map[string]string{"job_id": "number"},
	},
	"http.request": {
		required: []string{"url"},
		outputs:  map[string]string{"status": "number", "headers": "json", "body": "string"},
	},
	"postgres.query": {
		required: []string{"sql"},
		outputs:  map[string]string{"rows": "json", "row_count": "number", "first": "json"},
	},
}

// takesSecrets reports whether a part of a step's `with` may hold secrets: text that is sent, but neither stored nor shown.
func (s *Step) takesSecrets(key string) bool {
	return s.Action == "http.request" && (key == "url" || key == "headers" || key == "body")
}

// reserved are the first parts of action names that only Oarlock may use.
var reserved = []string{"http", "postgres", "dag", "river"}

// body returns the kind of work that a step is for its worker.
func (s *Step) body() dagrun.Body {
	if b := builtins[s.Action]; b != nil {
		return b.body
	}
	return dagrun.BodyTask
}

// kind returns the name of the field that holds the body, or "" if the step has no body.
func (s *Step) kind() string {
	switch {
	case s.Run != "":
		return "run"
	case s.Command != "":
		return "command"
	case s.Action != "":
		return "action"
	case s.Result != nil:
		return "result"
	}
	return ""
}

// Actions returns the names of the actions that Oarlock has itself. Every other action belongs to a program that embeds a
// worker.
func Actions() []string { return sortedKeys(builtins) }
