package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// dagVersion names a version of a DAG. What it says never changes.
type dagVersion struct {
	dag    string
	number int
}

// definition is readDefinition for a version that is given, which never changes and so is kept.
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

// readDefinition reads a version of a DAG, 0 the current one; nil where the login may not.
func (s *server) readDefinition(ctx context.Context, dag string, version int) (*queue.Definition, error) {
	stored, err := s.store.GetDAG(ctx, dag, version)
	if refused, ok := errors.AsType[*queue.Error](err); ok && denied[refused.Code] {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return definitionIn(stored)
}

func (p *runPage) spec() *dagspec.Spec {
	if p.dag == nil {
		return nil
	}
	return p.dag.Spec
}

// definitionOf is what the DAG says of a step or handler, as JSON; "" for a replacement, and where it cannot be told.
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

// indented is a value as JSON for people.
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
