package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// appending is one statement's worth of chunks on its way.
type appending struct {
	session *Session
	chunks  []Chunk // that are neither stored, as far as we know, nor left out
	left    *AppendError
}

func (a *appending) send(ctx context.Context) error {
	return a.session.chunks.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		for range maxCollisions {
			if err := a.insert(ctx, conn); !isCollision(err) {
				return err
			}
			if err := a.sift(ctx, conn); err != nil {
				return err
			}
		}
		return errors.New("somebody else writes the same logs")
	})
}

// isStored finds out on another connection: making that one has ended the one that the statement went to.
func (a *appending) isStored(ctx context.Context) (bool, error) {
	err := a.session.chunks.use(ctx, a.sift)
	return len(a.chunks) == 0, err
}

func isCollision(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23505"
}

// insert stores chunks under the claims that the session holds, and leaves out the others.
func (a *appending) insert(ctx context.Context, conn *pgx.Conn) error {
	claims := a.claims()
	if len(a.chunks) == 0 {
		return nil
	}
	args := arguments(a.chunks)
	args["ats"] = column(a.chunks, func(c *Chunk) time.Time { return c.At })
	args["worker"] = a.session.worker.ID
	args["runs"] = column(claims, func(c **Claim) RunID { return (*c).Run })
	args["claims"] = column(claims, func(c **Claim) uuid.UUID { return (*c).ID })
	got, err := a.ask(ctx, conn, args)
	if err != nil {
		return err
	}
	if !got.Fenced {
		return a.session.lost()
	}
	a.session.held.setFollowed(claims, got.Followed)
	a.chunks = nil
	for _, c := range claims {
		if !slices.Contains(got.Mine, c.Run) {
			a.session.held.forfeit(c)
			a.left.Lost = include(a.left.Lost, c.Run)
		}
	}
	return nil
}

// appended is what the statement answers.
type appended struct {
	Fenced         bool
	Mine, Followed []RunID
}

// appendName is of the prepared statement.
const appendName = "oarlock_append"

// appendBuffers hold the data of a statement. They are never nil, which would be stored as NULL.
var appendBuffers = sync.Pool{New: func() any { b := make([]byte, 0, MaxAppendBytes); return &b }}

// ask sends the statement with the data as it goes over the wire: pgx would copy all of it into new memory, twice and more.
func (a *appending) ask(ctx context.Context, conn *pgx.Conn, args pgx.StrictNamedArgs) (got appended, err error) {
	buffer := appendBuffers.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
	defer appendBuffers.Put(buffer)
	data := (*buffer)[:0]
	begins, sizes := make([]int32, len(a.chunks)), make([]int32, len(a.chunks))
	for i := range a.chunks {
		begins[i], sizes[i] = int32(len(data)+1), int32(len(a.chunks[i].Data))
		data = append(data, a.chunks[i].Data...)
	}
	*buffer = data
	args["data"], args["begins"], args["sizes"] = []byte{}, begins, sizes
	statement, values, err := args.RewriteQuery(ctx, conn, appendSQL, nil)
	if err != nil {
		return got, err
	}
	prepared, err := conn.Prepare(ctx, appendName, statement)
	if err != nil {
		return got, err
	}
	var query pgx.ExtendedQueryBuilder
	if err := query.Build(conn.TypeMap(), prepared, values); err != nil {
		return got, err
	}
	query.ParamValues[slices.Index(prepared.ParamOIDs, pgtype.ByteaOID)] = data
	result := conn.PgConn().ExecStatement(ctx, prepared, query.ParamValues, query.ParamFormats, query.ResultFormats)
	return pgx.CollectExactlyOneRow(pgx.RowsFromResultReader(conn.TypeMap(), result), pgx.RowToStructByPos[appended])
}

// claims are those of the chunks' runs. Chunks of runs that are not held are left out.
func (a *appending) claims() (claims []*Claim) {
	byRun := map[RunID]*Claim{}
	for i := range a.chunks {
		run := a.chunks[i].Run
		if _, known := byRun[run]; known {
			continue
		}
		if byRun[run] = a.session.held.claimOf(run); byRun[run] == nil {
			a.left.Lost = include(a.left.Lost, run)
		} else {
			claims = append(claims, byRun[run])
		}
	}
	a.chunks = slices.DeleteFunc(a.chunks, func(c Chunk) bool { return byRun[c.Run] == nil })
	return claims
}

// sift takes out what is stored already, and leaves out every chunk of an attempt that has another one in its place.
func (a *appending) sift(ctx context.Context, conn *pgx.Conn) error {
	args := arguments(a.chunks)
	args["data"] = column(a.chunks, content)
	rows, _ := conn.Query(ctx, chunksThereSQL, args) // the error is the rows' too
	there := map[int]bool{}                          // place in chunks: whether it is the same
	var place int
	var same bool
	if _, err := pgx.ForEachRow(rows, []any{&place, &same}, func() error { there[place-1] = same; return nil }); err != nil {
		return err
	}
	torn := map[attemptKey]bool{}
	for i, same := range there {
		if !same {
			torn[a.chunks[i].attempt()] = true
			a.left.Conflicts = include(a.left.Conflicts, a.chunks[i].Run)
		}
	}
	var rest []Chunk
	for i, c := range a.chunks {
		if _, stored := there[i]; !stored && !torn[c.attempt()] {
			rest = append(rest, c)
		}
	}
	a.chunks = rest
	return nil
}

// arguments are chunks in columns, but for their data, and for when they were made: a chunk that is sent again may have been
// made again.
func arguments(chunks []Chunk) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{
		"days":       column(chunks, func(c *Chunk) time.Time { return c.Day }),
		"chunk_runs": column(chunks, func(c *Chunk) RunID { return c.Run }),
		"steps":      column(chunks, func(c *Chunk) int { return c.Task.Step }),
		"items":      column(chunks, func(c *Chunk) string { return c.Task.Item }),
		"alts":       column(chunks, func(c *Chunk) int { return c.Task.Alt }),
		"attempts":   column(chunks, func(c *Chunk) int { return c.Attempt }),
		"seqs":       column(chunks, func(c *Chunk) int { return c.Seq }),
		"streams":    column(chunks, func(c *Chunk) Stream { return c.Stream }),
		"finals":     column(chunks, func(c *Chunk) bool { return c.Final }),
		"reasons":    column(chunks, func(c *Chunk) string { return c.Reason }),
		"dropped":    column(chunks, func(c *Chunk) int64 { return c.Dropped }),
		"lines":      column(chunks, func(c *Chunk) int64 { return c.Lines }),
	}
}

// content is never nil, which would be stored as NULL.
func content(c *Chunk) []byte {
	if c.Data == nil {
		return []byte{}
	}
	return c.Data
}

func column[R, T any](rows []R, field func(*R) T) []T {
	all := make([]T, len(rows))
	for i := range rows {
		all[i] = field(&rows[i])
	}
	return all
}

func include(runs []RunID, run RunID) []RunID {
	if slices.Contains(runs, run) {
		return runs
	}
	return append(runs, run)
}

// attemptKey is an attempt among all.
type attemptKey struct {
	run     RunID
	task    dagrun.TaskID
	attempt int
}

func (c *Chunk) attempt() attemptKey { return attemptKey{c.Run, c.Task, c.Attempt} }

// claimOf is the claim by which a run is held, nil for none.
func (h *claimSet) claimOf(run RunID) *Claim {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held := h.byRun[run]; held != nil {
		return held.claim
	}
	return nil
}
