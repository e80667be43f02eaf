package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/sql"
)

// maxDefinitions bounds the compiled versions that a store keeps.
const maxDefinitions = 256

var readDefinition = sql.Named("queue/definition")

// version names a version of a DAG.
type version struct {
	dag    int64
	number int
}

// definitions are DAG versions, compiled. A version never changes, so what is kept is never stale.
type definitions struct {
	mu   sync.Mutex
	kept map[version]*Definition
}

func newDefinitions() *definitions { return &definitions{kept: map[version]*Definition{}} }

func (d *definitions) get(v version) *Definition {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept[v]
}

// put keeps a definition, in place of any other where there is no room. Two that read the same at once share the first.
func (d *definitions) put(v version, def *Definition) *Definition {
	d.mu.Lock()
	defer d.mu.Unlock()
	if kept := d.kept[v]; kept != nil {
		return kept
	}
	for other := range d.kept {
		if len(d.kept) < maxDefinitions {
			break
		}
		delete(d.kept, other)
	}
	d.kept[v] = def
	return def
}

// Definition is a version of a DAG, ready to be driven. It is shared and must not be changed.
func (s *Session) Definition(ctx context.Context, dagID int64, number int) (*Definition, error) {
	v := version{dagID, number}
	if def := s.store.specs.get(v); def != nil {
		return def, nil
	}
	def, err := s.store.readDefinition(ctx, v)
	if err != nil {
		return nil, fmt.Errorf("read version %d of DAG %d: %w", number, dagID, err)
	}
	return s.store.specs.put(v, def), nil
}

func (s *Store) readDefinition(ctx context.Context, v version) (*Definition, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var stored []byte
	err := s.pool.QueryRow(ctx, readDefinition, v.dag, v.number).Scan(&stored)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	spec, err := dagspec.FromJSON(stored)
	if err != nil {
		return nil, err
	}
	graph, err := spec.Graph()
	if err != nil {
		return nil, err
	}
	return &Definition{Spec: spec, Graph: graph}, nil
}
