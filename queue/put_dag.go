package queue

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/sql"
)

var (
	putDAGSQL   = sql.Named("queue/put_dag")
	putFoundSQL = sql.Named("queue/put_found")
)

// PutDAG registers a version of a DAG, and makes it current. source is the text that the spec was made of, path where it
// came from ("" for nowhere). The content that is current already makes no version: only its path is then the new one. For
// administrators.
func (s *Store) PutDAG(ctx context.Context, spec *dagspec.Spec, source, path string) (Put, error) {
	return s.putDAG(ctx, spec, source, path, false)
}

// PutDAGUnscheduled is PutDAG without the schedules of spec: those that the DAG has stay as they are. Where the content is current
// already, with its schedules, it makes no version either.
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
		return Put{}, said(op, err)
	}
	args := pgx.StrictNamedArgs{
		"spec": string(text), "source": source, "hash": spec.Hash(), "needs": spec.Needs(), "slots": spec.WidestStep(),
		"queue_timeout": spec.QueueTimeout.Std().Milliseconds(), "path": given(path),
		"keep_schedules": keepSchedules,
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
	return put, said(op, s.write(ctx, askTimeout, do, again))
}
