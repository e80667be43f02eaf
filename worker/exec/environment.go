package exec

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/worker"
)

// maxValueBytes is how much travels as a variable or an argument; a longer variable X arrives as the file that X_FILE names.
const maxValueBytes = 32 << 10

// fileSuffix ends the name of the variable that names such a file.
const fileSuffix = "_FILE"

// traceVariable is where tracing tools look for the trace that a process belongs to.
const traceVariable = "TRACEPARENT"

// environment is what a body gets, layer over layer.
type environment map[string]string

// inherit makes the lowest two layers, which are the same for every body.
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

// layered adds the trace, what the DAG and its step say, secrets, params, and last what is ours.
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
		failed, err := compact(append([]string{}, t.Failed...))
		if err != nil {
			return nil, err
		}
		added["OARLOCK_FAILED_STEPS"] = string(failed)
	}
	return added, added.check()
}

// ours are the variables that tell a body what it is.
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

// momentText is a time as references print it.
func momentText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// paramText is a param as texts show it: strings as they are, anything else as compact JSON.
func paramText(value any) (string, error) {
	if text, ok := value.(string); ok {
		return text, nil
	}
	text, err := compact(value)
	return string(text), err
}

// CheckVariable says why no process can have a variable. The value is not in the error.
func CheckVariable(name, value string) error {
	switch {
	case name == "" || strings.ContainsAny(name, "=\x00"):
		return fmt.Errorf("env: %q cannot be the name of a variable", name)
	case strings.ContainsRune(value, 0):
		return fmt.Errorf("env: the value of %s holds a NUL byte, which no variable can: pass it through stdin or $OARLOCK_UPSTREAM", name)
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

// list is the environment as a process gets it, over a lower layer that was listed before and without what is withheld of that.
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

// withheld are the variables of the worker that the DAG names as secrets: no task inherits them.
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

// path is where commands are looked for.
func (e environment) path(below environment) string {
	if path, ok := e["PATH"]; ok {
		return path
	}
	if path, ok := below["PATH"]; ok {
		return path
	}
	return standardPath
}
