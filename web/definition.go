package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// dagVersion names a version of a DAG. The content of a version never changes.
type dagVersion struct {
	dag    string
	number int
}

// definition returns a version of a DAG. It keeps up to keptMax versions in memory, since versions never change; so version must
// not be 0. It returns nil without an error if the login is not allowed to read DAGs.
func (s *server) definition(ctx context.Context, dag string, version int) (*queue.Definition, error) {
	key := dagVersion{dag, version}
	if def, ok := s.dags.get(key); ok {
		return def, nil
	}
	def, err := s.readDefinition(ctx, dag, version)
	if def != nil {
		s.dags.put(key, def)
	}
	return def, err
}

// readDefinition reads a version of a DAG from the database; version 0 is the current one. It returns nil without an error if the
// login is not allowed to read DAGs.
func (s *server) readDefinition(ctx context.Context, dag string, version int) (*queue.Definition, error) {
	stored, err := s.store.GetDAG(ctx, dag, version)
	if refused, ok := errors.AsType[*queue.Error](err); ok && denied[refused.Code] {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return definitionIn(stored)
}

// spec returns the spec of the run's version of its DAG; nil if the login is not allowed to read it.
func (p *runPage) spec() *dagspec.Spec {
	if p.dag == nil {
		return nil
	}
	return p.dag.Spec
}

// Reason returns the reason of the run as a sentence.
func (p *runPage) Reason() string { return runview.RunReason(&p.Run.Run, p.spec()) }

// definitionOf returns the definition of a step or handler as JSON. It returns "" for a replacement such as load~1, and if the
// login is not allowed to read the DAG.
func (p *runPage) definitionOf(task string) string {
	if p.dag == nil {
		return ""
	}
	step := p.dag.Spec.Named(task)
	if step == nil {
		return ""
	}
	text, err := indented(step)
	if err != nil {
		return ""
	}
	return text
}

// indented returns a value as JSON over several lines.
func indented(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return "", fmt.Errorf("print a definition: %w", err)
	}
	return b.String(), nil
}
