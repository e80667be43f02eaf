package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/sql"
)

// maxDefinitions bounds the compiled versions that a store keeps.
const maxDefinitions = 256

var (
	readDefinition = sql.Named("queue/definition")
	readSourcePath = sql.Named("queue/source_path")
)

// version names a version of a DAG.
type version struct {
	dag    int64
	number int
}

// definitions are DAG versions, compiled. What a version says never changes, so what is kept is never stale; its
// path may, see Config.FreshPaths.
type definitions struct {
	mu      sync.Mutex
	kept    map[version]*Definition
	reading map[version]chan struct{} // closed when whoever reads it is done
}

func newDefinitions() *definitions {
	return &definitions{kept: map[version]*Definition{}, reading: map[version]chan struct{}{}}
}

// get returns a version, and has it read by one where many want it at once: a burst of runs is of one DAG.
func (d *definitions) get(ctx context.Context, v version, read func() (*Definition, error)) (*Definition, error) {
	for {
		def, other, done := d.look(v)
		switch {
		case def != nil:
			return def, nil
		case done != nil:
			def, err := read()
			d.put(v, def)
			done()
			return def, err
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// look returns what is kept, else who reads it already, else what to call when the caller has read it.
func (d *definitions) look(v version) (kept *Definition, other <-chan struct{}, done func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if def := d.kept[v]; def != nil {
		return def, nil, nil
	}
	if reading := d.reading[v]; reading != nil {
		return nil, reading, nil
	}
	reading := make(chan struct{})
	d.reading[v] = reading
	return nil, nil, func() {
		d.mu.Lock()
		delete(d.reading, v)
		d.mu.Unlock()
		close(reading)
	}
}

// put keeps a definition, in place of any other where there is no room.
func (d *definitions) put(v version, def *Definition) {
	if def == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for other := range d.kept {
		if len(d.kept) < maxDefinitions {
			break
		}
		delete(d.kept, other)
	}
	d.kept[v] = def
}

// Definition is a version of a DAG, ready to be driven. It is shared and must not be changed.
func (s *Session) Definition(ctx context.Context, dagID int64, number int) (*Definition, error) {
	v := version{dagID, number}
	def, err := s.store.specs.get(ctx, v, func() (*Definition, error) { return s.readDefinition(ctx, v) })
	if err != nil {
		return nil, fmt.Errorf("read version %d of DAG %d: %w", number, dagID, err)
	}
	if s.store.fresh {
		return s.placed(ctx, v, def)
	}
	return def, nil
}

// placed is a definition with the path that its version has now.
func (s *Session) placed(ctx context.Context, v version, def *Definition) (*Definition, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var path zeronull.Text
	err := s.call(ctx, func(ctx context.Context, db caller) error {
		return db.QueryRow(ctx, readSourcePath, v.dag, v.number).Scan(&path)
	})
	if err != nil {
		return nil, fmt.Errorf("read the path of version %d of DAG %d: %w", v.number, v.dag, err)
	}
	here := *def
	here.Path = string(path)
	return &here, nil
}

func (s *Session) readDefinition(ctx context.Context, v version) (*Definition, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var stored []byte
	var path zeronull.Text
	err := s.call(ctx, func(ctx context.Context, db caller) error {
		return db.QueryRow(ctx, readDefinition, v.dag, v.number).Scan(&stored, &path)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	spec, err := dagspec.FromJSON(stored)
	if err != nil {
		return nil, unreadableError{err}
	}
	graph, err := spec.Graph()
	if err != nil {
		return nil, unreadableError{err}
	}
	return &Definition{Spec: spec, Graph: graph, Path: string(path)}, nil
}
