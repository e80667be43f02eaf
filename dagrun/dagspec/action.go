package dagspec

import "github.com/oarlock-dev/oarlock/dagrun"

// builtin is what the language knows of an action; its `with` is in the schema, under with.NAME.
type builtin struct {
	body     dagrun.Body
	required []string          // of with
	outputs  map[string]string // what it gives without being told, by type
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

// takesSecrets says whether a part of a step's `with` may hold secrets: what is sent, but neither kept nor shown.
func (s *Step) takesSecrets(key string) bool {
	return s.Action == "http.request" && (key == "url" || key == "headers" || key == "body")
}

// reserved are the first parts of names that are ours alone.
var reserved = []string{"http", "postgres", "dag", "river"}

// body says how a step occupies its worker.
func (s *Step) body() dagrun.Body {
	if b := builtins[s.Action]; b != nil {
		return b.body
	}
	return dagrun.BodyTask
}

// kind is which field says what the body is, "" for none.
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

// Actions are the names of the actions that Oarlock has itself. Others are those of programs that embed a worker.
func Actions() []string { return sortedKeys(builtins) }
