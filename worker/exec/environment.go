package exec

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/internal/plainjson"
	"github.com/oarlock-dev/oarlock/worker"
)

// maxValueBytes is the longest variable or argument. A longer variable X is passed as a file, which the variable X_FILE names.
const maxValueBytes = 32 << 10

// fileSuffix is the end of the name of such a variable.
const fileSuffix = "_FILE"

// traceVariable is the variable in which tracing tools look for the parent trace.
const traceVariable = "TRACEPARENT"

// environment holds variables by name. The environment of a body is made of several layers.
type environment map[string]string

// inherit returns the variables that are the same for every body: the entries of c.Environ that the deny list does not deny, and
// above them c.Env, which overrides them. Without c.EnvInherit it returns c.Env alone. The deny list is c.EnvDeny with
// c.EnvSecrets. A nil c.EnvDeny stands for StandardDenyList. The error names a malformed glob.
func inherit(c Config) (environment, error) {
	globs := c.EnvDeny
	if globs == nil {
		globs = StandardDenyList
	}
	deny, err := ParseDenyList(withSecrets(globs, c.EnvSecrets))
	if err != nil {
		return nil, err
	}
	env := environment{}
	for _, entry := range c.Environ {
		name, value, ok := strings.Cut(entry, "=")
		if c.EnvInherit && ok && name != "" && !deny.Denies(name, value) {
			env[name] = value
		}
	}
	maps.Copy(env, c.Env)
	return env, nil
}

// layered returns the variables of one body, which come above those of inherit. A later one of these layers overrides an earlier
// one: the parent trace, env of DAG and step, secrets, params, and Oarlock's own variables. A null param has no variable. It
// returns an error if no process can have one of the variables, or if checkLoaders refuses one of the DAG.
func (x *Executor) layered(t *worker.Task) (environment, error) {
	added := environment{}
	if t.Resolved != nil {
		maps.Copy(added, t.Resolved.Env)
	}
	maps.Copy(added, t.Secrets)
	if err := added.checkLoaders(x.config.Allow); err != nil {
		return nil, err
	}
	if _, ok := added[traceVariable]; !ok && t.Traceparent != "" {
		added[traceVariable] = t.Traceparent
	}
	for name, value := range t.Params {
		if value == nil {
			continue
		}
		text, err := paramText(value)
		if err != nil {
			return nil, fmt.Errorf("param %s: %w", name, err)
		}
		added["PARAM_"+strings.ToUpper(name)] = text
	}
	maps.Copy(added, ours(t))
	if t.RunState != "" {
		failed, err := plainjson.Compact(append([]string{}, t.Failed...))
		if err != nil {
			return nil, err
		}
		added["OARLOCK_FAILED_STEPS"] = string(failed)
	}
	return added, added.check()
}

// ours returns the variables by which Oarlock describes the run, the step and the attempt to the body. Without an item OARLOCK_ITEM
// is empty. Other variables that do not apply are missing, such as OARLOCK_SCHEDULE if no schedule made the run. layered and files
// add the failed steps and the names of files.
func ours(t *worker.Task) environment {
	env := environment{
		"OARLOCK_RUN_ID":          strconv.FormatInt(t.Run, 10),
		"OARLOCK_RUN_UID":         t.UID,
		"OARLOCK_DAG":             t.DAG,
		"OARLOCK_STEP":            t.Step,
		"OARLOCK_ITEM":            t.Item,
		"OARLOCK_ATTEMPT":         strconv.Itoa(t.Attempt),
		"OARLOCK_FENCE":           strconv.FormatInt(t.Fence, 10),
		"OARLOCK_IDEMPOTENCY_KEY": t.Key,
		"OARLOCK_LOGICAL_AT":      momentText(t.LogicalAt),
	}
	if t.Schedule != "" {
		env["OARLOCK_SCHEDULE"] = t.Schedule
	}
	if !t.PreviousLogicalAt.IsZero() {
		env["OARLOCK_PREVIOUS_LOGICAL_AT"] = momentText(t.PreviousLogicalAt)
	}
	if t.PublishTry > 0 {
		env["OARLOCK_PUBLISH_TRY"] = strconv.Itoa(t.PublishTry)
	}
	if t.Source != "" {
		env["OARLOCK_SOURCE_DIR"] = t.Source
	}
	if t.RunState != "" {
		env["OARLOCK_RUN_STATE"] = t.RunState
	}
	return env
}

// momentText returns a time in UTC, in the format of RFC 3339 that references in DAGs use.
func momentText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// paramText returns a param as text: a string unchanged, any other value as compact JSON.
func paramText(value any) (string, error) {
	if text, ok := value.(string); ok {
		return text, nil
	}
	text, err := plainjson.Compact(value)
	return string(text), err
}

// CheckVariable returns an error if no process can have a variable: its name is empty or has = or a NUL byte, or its value has a
// NUL byte. The error contains the name, never the value.
func CheckVariable(name, value string) error {
	switch {
	case name == "" || strings.ContainsAny(name, "=\x00"):
		return fmt.Errorf("env: %q cannot be the name of a variable", name)
	case strings.ContainsRune(value, 0):
		return fmt.Errorf("env: the value of %s holds a NUL byte, which no variable can hold: pass the value through stdin or $OARLOCK_UPSTREAM", name)
	}
	return nil
}

func (e environment) check() error {
	for name, value := range e {
		if err := CheckVariable(name, value); err != nil {
			return err
		}
	}
	return nil
}

// list returns e as NAME=VALUE entries, in no order, followed by the entries of below, a lower layer. It leaves out an entry of
// below if e has its name, or if withheld does. withheld does not concern e.
func (e environment) list(below []string, withheld map[string]bool) []string {
	list := make([]string, 0, len(e)+len(below))
	for name, value := range e {
		list = append(list, name+"="+value)
	}
	for _, entry := range below {
		name, _, _ := strings.Cut(entry, "=")
		if _, ok := e[name]; !ok && !withheld[name] {
			list = append(list, entry)
		}
	}
	return list
}

// withheld returns the names of the worker's variables that the DAG of the task declares as secrets. The body must not inherit
// them, even if its step does not name the secret.
func withheld(t *worker.Task) map[string]bool {
	names := map[string]bool{}
	if t.Resolved != nil {
		for _, s := range t.Resolved.Declared {
			if s.From == "env" {
				names[s.Key] = true
			}
		}
	}
	return names
}

// path returns the PATH in which commands are looked up: the PATH of e, else of below, the lower layer, else standardPath.
func (e environment) path(below environment) string {
	if path, ok := e["PATH"]; ok {
		return path
	}
	if path, ok := below["PATH"]; ok {
		return path
	}
	return standardPath
}
