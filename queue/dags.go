package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/sql"
)

// maxVersions bounds a list that people read.
const maxVersions = 1000

var (
	dagsSQL       = sql.Named("queue/dags")
	dagSQL        = sql.Named("queue/dag")
	dagHistorySQL = sql.Named("queue/dag_history")
	setDAGSQL     = sql.Named("queue/set_dag")
)

// DAGs lists all DAGs by name, including removed ones. For readers and workers.
func (s *Store) DAGs(ctx context.Context) ([]DAG, error) {
	dags, err := s.listDAGs(ctx, &DAGFilter{}, nil)
	slices.SortFunc(dags, func(a, b DAG) int { return strings.Compare(a.Name, b.Name) })
	return dags, err
}

// DAGPage reads the page of DAGs that follows f.After, by name, removed ones last. f.Limit must be from 1 to MaxPage. For readers
// and workers.
func (s *Store) DAGPage(ctx context.Context, f DAGFilter) ([]DAG, error) {
	if f.Limit < 1 || f.Limit > MaxPage {
		return nil, wrapError("list dags", fmt.Errorf("a page has 1 to %d dags, not %d", MaxPage, f.Limit))
	}
	return s.listDAGs(ctx, &f, &f.Limit)
}

// listDAGs reads the DAGs that f.Find and f.After select, by name, removed ones last. It reads at most rows DAGs, or all if rows
// is nil. It ignores f.Limit.
func (s *Store) listDAGs(ctx context.Context, f *DAGFilter, rows *int) ([]DAG, error) {
	args := pgx.StrictNamedArgs{"find": strings.ToLower(f.Find), "removed": f.After.Removed, "after": f.After.Name, "rows": rows}
	dags, err := list(ctx, s, dagsSQL, args, scanListedDAG)
	return dags, wrapError("list dags", err)
}

// GetDAG reads a version of a DAG; 0 is the current version. It returns ErrNotFound if there is no such DAG or version. For
// readers and workers.
func (s *Store) GetDAG(ctx context.Context, name string, version int) (*DAGVersion, error) {
	v, err := one(ctx, s, dagSQL, pgx.StrictNamedArgs{"name": name, "version": given(version)}, scanDAGVersion)
	if errors.Is(err, pgx.ErrNoRows) {
		err = noSuchDAG(name, version)
	}
	if err != nil {
		return nil, wrapError("get a dag", err)
	}
	return &v, nil
}

// DAGHistory lists the newest 1,000 versions of a DAG, newest first. It returns ErrNotFound if there is no such DAG. For readers
// and workers.
func (s *Store) DAGHistory(ctx context.Context, name string) ([]DAG, error) {
	versions, err := list(ctx, s, dagHistorySQL, pgx.StrictNamedArgs{"name": name, "rows": maxVersions}, scanDAG)
	if err == nil && len(versions) == 0 {
		err = noSuchDAG(name, 0)
	}
	return versions, wrapError("list versions", err)
}

// SetDAG changes the fields of a DAG that are not nil in c: it pauses or resumes the DAG, removes or restores it, or retires its
// older versions. It returns ErrNotFound if there is no such DAG. For administrators.
func (s *Store) SetDAG(ctx context.Context, c DAGChange) error {
	return wrapError("set a dag", s.change(ctx, setDAGSQL, pgx.StrictNamedArgs{"name": c.Name, "paused": c.Paused, "removed": c.Removed, "oldest": c.Oldest}))
}

func noSuchDAG(name string, version int) error {
	if version != 0 {
		return fmt.Errorf("there is no dag %q in version %d: %w", name, version, ErrNotFound)
	}
	return fmt.Errorf("there is no dag %q: %w", name, ErrNotFound)
}

func (d *DAG) columns() []any {
	return []any{
		&d.Name, &d.Version, (*zeronull.Text)(&d.PausedBy), (*zeronull.Timestamptz)(&d.RemovedAt), &d.MaxActive, &d.Queue,
		&d.CreatedAt, &d.PutAt, &d.PutBy,
	}
}

func scanDAG(row pgx.CollectableRow) (d DAG, err error) {
	return d, row.Scan(d.columns()...)
}

func scanListedDAG(row pgx.CollectableRow) (d DAG, err error) {
	return d, row.Scan(append(d.columns(), (*zeronull.Timestamptz)(&d.NextAt))...)
}

func scanDAGVersion(row pgx.CollectableRow) (v DAGVersion, err error) {
	columns := append(v.columns(), &v.ID, &v.Current, &v.Spec, &v.Source, (*zeronull.Text)(&v.SourcePath), &v.Hash, &v.Needs)
	return v, row.Scan(columns...)
}

var (
	putDAGSQL   = sql.Named("queue/put_dag")
	putFoundSQL = sql.Named("queue/put_found")
)

// PutDAG registers a version of a DAG with its schedules, and makes it the current one. source is the text of the spec, path the
// file it came from ("": no file). If spec equals the current version, PutDAG makes no new version. It then stores the path,
// unless that is "", and sets the schedules to those of spec all the same. In each case a removed DAG comes back. For
// administrators.
func (s *Store) PutDAG(ctx context.Context, spec *dagspec.Spec, source, path string) (Put, error) {
	return s.putDAG(ctx, spec, source, path, false)
}

// PutDAGUnscheduled is PutDAG, but it ignores the schedules of spec: the DAG keeps the schedules that it has. It makes no new
// version if spec equals the current version, be it as given or without its schedules. For administrators.
func (s *Store) PutDAGUnscheduled(ctx context.Context, spec *dagspec.Spec, source, path string) (Put, error) {
	if len(spec.Schedule) > 0 {
		current, err := s.GetDAG(ctx, spec.Name, 0)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return Put{}, err
		}
		if err != nil || current.Hash != spec.Hash() {
			bare := *spec
			bare.Schedule = nil
			spec = &bare
		}
	}
	return s.putDAG(ctx, spec, source, path, true)
}

func (s *Store) putDAG(ctx context.Context, spec *dagspec.Spec, source, path string, keepSchedules bool) (Put, error) {
	const op = "put a dag"
	text, err := json.Marshal(spec)
	if err != nil {
		return Put{}, wrapError(op, err)
	}
	pools, err := json.Marshal(spec.Pools())
	if err != nil {
		return Put{}, wrapError(op, err)
	}
	args := pgx.StrictNamedArgs{
		"spec": string(text), "source": source, "hash": spec.Hash(), "needs": spec.Needs(), "slots": spec.WidestStep(),
		"queue_timeout": spec.QueueTimeout.Std().Milliseconds(), "path": given(path),
		"keep_schedules": keepSchedules, "pools": string(pools),
	}
	started := time.Now()
	var put Put
	do := func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, putDAGSQL, args).Scan(&put.ID, &put.Version, &put.IsNew)
	}
	again := func(ctx context.Context, conn *pgxpool.Conn) error {
		found := pgx.StrictNamedArgs{"name": spec.Name, "hash": args["hash"], "since": time.Since(started) + clockMargin}
		err := conn.QueryRow(ctx, putFoundSQL, found).Scan(&put.ID, &put.Version, &put.IsNew)
		if errors.Is(err, pgx.ErrNoRows) {
			return do(ctx, conn)
		}
		return err
	}
	return put, wrapError(op, s.write(ctx, askTimeout, do, again))
}

// maxDefinitions bounds the compiled versions that a store keeps.
const maxDefinitions = 256

var (
	readDefinition = sql.Named("queue/definition")
	readSourcePath = sql.Named("queue/source_path")
)

// version identifies a version of a DAG.
type version struct {
	dag    int64
	number int
}

// definitions caches compiled DAG versions. The content of a version never changes, so the cache never becomes stale. The path of
// its file may change, see Config.FreshPaths.
type definitions struct {
	mu      sync.Mutex
	kept    map[version]*Definition
	reading map[version]chan struct{} // closed when the caller that reads the version is done
}

func newDefinitions() *definitions {
	return &definitions{kept: map[version]*Definition{}, reading: map[version]chan struct{}{}}
}

// get returns a version from the cache, or calls read and caches the result. If several callers want the same version at once,
// one of them calls read and the others wait, because runs of one DAG often start in a burst. An error of read is not cached: its
// caller gets it, and the next waiting caller calls read again. get returns the error of ctx if that ends while it waits.
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

// look returns exactly one result that is not nil. kept is the cached version. other is a channel that is closed once another
// caller has finished reading the version; look again then. done means that the caller must read the version, put it, and then
// call done.
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

// put caches def as version v; if def is nil, it does nothing. If the cache is full, it drops an arbitrary other version.
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

// Definition returns a version of a DAG, ready to be driven. The result may be shared, so callers must not change it. With
// Config.FreshPaths its Path is read from the database at each call. If this version of the program cannot read the stored DAG,
// pass the error to FailRun, which leaves the run to other workers.
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

// placed returns a copy of def with the path that the database has for version v now.
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
	def := NewDefinition(spec, graph)
	def.Path = string(path)
	return def, nil
}

// NewDefinition returns the definition of a spec with the graph that the spec compiles to.
func NewDefinition(spec *dagspec.Spec, graph *dagrun.Graph) *Definition {
	def := &Definition{Spec: spec, Graph: graph}
	if names := spec.BoundParams(); len(names) > 0 {
		def.bound = &boundGraph{names: names}
	}
	return def
}

// boundGraph keeps the graph that a definition had for the last run: runs in a row often have equal params.
type boundGraph struct {
	names []string // of the params that give durations or limits

	mu     sync.Mutex
	values string // of these params, as JSON; "": no graph is kept
	spec   *dagspec.Spec
	graph  *dagrun.Graph
}

// Bind returns the definition for a run with these params, which must be a result of Spec.Params: its graph has the durations and
// limits that params give. It returns d itself if no param gives any, as in most DAGs. The same params always give an equal
// graph, so that each driver of a run comes to the same decisions.
func (d *Definition) Bind(params map[string]any) (*Definition, error) {
	b := d.bound
	if b == nil {
		return d, nil
	}
	given := make([]any, len(b.names))
	for i, name := range b.names {
		given[i] = params[name]
	}
	values, err := json.Marshal(given)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.values != string(values) {
		spec, err := d.Spec.Bind(params)
		if err != nil {
			return nil, err
		}
		graph, err := spec.Graph()
		if err != nil {
			return nil, err
		}
		b.values, b.spec, b.graph = string(values), spec, graph
	}
	return &Definition{Spec: b.spec, Graph: b.graph, Path: d.Path}, nil
}
