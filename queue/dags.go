package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/oarlock-dev/oarlock/sql"
)

// maxVersions bounds a list for people.
const maxVersions = 1000

var (
	dagsSQL       = sql.Named("queue/dags")
	dagSQL        = sql.Named("queue/dag")
	dagHistorySQL = sql.Named("queue/dag_history")
	setDAGSQL     = sql.Named("queue/set_dag")
)

// DAGs lists all DAGs by name, removed ones too. For readers and workers.
func (s *Store) DAGs(ctx context.Context) ([]DAG, error) {
	dags, err := s.listDAGs(ctx, &DAGFilter{}, nil)
	slices.SortFunc(dags, func(a, b DAG) int { return strings.Compare(a.Name, b.Name) })
	return dags, err
}

// DAGPage reads a page of DAGs by name, those that were removed last. For readers and workers.
func (s *Store) DAGPage(ctx context.Context, f DAGFilter) ([]DAG, error) {
	if f.Limit < 1 || f.Limit > MaxPage {
		return nil, said("list dags", fmt.Errorf("a page has 1 to %d dags, not %d", MaxPage, f.Limit))
	}
	return s.listDAGs(ctx, &f, &f.Limit)
}

// listDAGs reads up to rows DAGs, nil all.
func (s *Store) listDAGs(ctx context.Context, f *DAGFilter, rows *int) ([]DAG, error) {
	args := pgx.StrictNamedArgs{"find": strings.ToLower(f.Find), "removed": f.After.Removed, "after": f.After.Name, "rows": rows}
	dags, err := list(ctx, s, dagsSQL, args, scanListedDAG)
	return dags, said("list dags", err)
}

// GetDAG reads a version of a DAG; 0 is the current one. For readers and workers.
func (s *Store) GetDAG(ctx context.Context, name string, version int) (*DAGVersion, error) {
	v, err := one(ctx, s, dagSQL, pgx.StrictNamedArgs{"name": name, "version": given(version)}, scanDAGVersion)
	if errors.Is(err, pgx.ErrNoRows) {
		err = noSuchDAG(name, version)
	}
	if err != nil {
		return nil, said("get a dag", err)
	}
	return &v, nil
}

// DAGHistory lists the versions of a DAG, newest first. For readers and workers.
func (s *Store) DAGHistory(ctx context.Context, name string) ([]DAG, error) {
	versions, err := list(ctx, s, dagHistorySQL, pgx.StrictNamedArgs{"name": name, "rows": maxVersions}, scanDAG)
	if err == nil && len(versions) == 0 {
		err = noSuchDAG(name, 0)
	}
	return versions, said("list versions", err)
}

// SetDAG pauses a DAG, resumes it, takes it out of service or back, or retires versions. For administrators.
func (s *Store) SetDAG(ctx context.Context, c DAGChange) error {
	return said("set a dag", s.change(ctx, setDAGSQL, pgx.StrictNamedArgs{"name": c.Name, "paused": c.Paused, "removed": c.Removed, "oldest": c.Oldest}))
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
