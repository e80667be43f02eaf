package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/sql"
)

// Stream is the origin of a chunk.
type Stream int16

// Streams.
const (
	StreamOarlock Stream = iota // Oarlock's own markers and notes
	StreamStdout
	StreamStderr
)

// MaxChunkBytes bounds the data of one chunk.
const MaxChunkBytes = 64 << 10

// Chunk is a numbered part of the log of an attempt. The numbers of a log start at 0 and have no gaps.
type Chunk struct {
	Run     RunID
	Task    dagrun.TaskID
	Attempt int
	Day     time.Time // LogDay of the attempt's start
	Seq     int
	Stream  Stream
	At      time.Time
	Data    []byte
	Step    string // if the logs of a whole run are read: name of Task's step; of a replacement as step~1

	Final   bool   // no chunk comes after this one
	Reason  string // of a final chunk: how the attempt ended, in one word
	Dropped int64  // bytes that were lost before this chunk
	Lines   int64  // lines of the attempt, of all streams, that had begun by the end of the chunk: see LineCounter
}

// LogDay returns the day under which the log of an attempt is stored, from the start of the attempt (TaskRecord.AttemptAt).
func LogDay(at dagrun.Time) time.Time {
	return time.UnixMilli(int64(at)).UTC().Truncate(24 * time.Hour)
}

// LineCounter numbers the lines of an attempt's log while its chunks are made. The writer calls Count for each chunk, in order. A
// line begins at the first byte of a stream, after a newline of the same stream, and after dropped bytes, because any line may
// have ended in them.
type LineCounter struct {
	Lines int64 // lines begun so far; a writer that goes on with a log starts with the number of the stored lines

	open [StreamStderr + 1]bool // streams with a last byte that was no newline
}

// Count adds the number of lines that begin in the next chunk to l.Lines, and sets c.Lines to that sum. Call it for each chunk of
// a log once, in order. If bytes were dropped before the chunk, the next byte of each stream begins a line.
func (l *LineCounter) Count(c *Chunk) {
	if c.Dropped > 0 {
		l.open = [StreamStderr + 1]bool{}
	}
	if len(c.Data) > 0 {
		l.Lines += innerNewlines(c.Data)
		if !l.open[c.Stream] {
			l.Lines++
		}
		l.open[c.Stream] = c.Data[len(c.Data)-1] != '\n'
	}
	c.Lines = l.Lines
}

// innerNewlines counts the newlines that are not the last byte.
func innerNewlines(data []byte) int64 {
	return int64(bytes.Count(data[:max(0, len(data)-1)], []byte{'\n'}))
}

// Bounds of one statement of AppendLogs. A call within these bounds is stored as a whole or not at all, except for the chunks
// that an *AppendError leaves out.
const (
	MaxAppendChunks = 256
	MaxAppendBytes  = 1 << 20
)

// maxCollisions bounds how often a batch is sent again without chunks that turned out to be stored already. Once is enough,
// because no other worker writes our chunks.
const maxCollisions = 3

var (
	appendSQL      = sql.Named("queue/append")
	chunksThereSQL = sql.Named("queue/chunks_there")
)

// AppendError names the runs of the chunks that were left out. All other chunks were stored.
type AppendError struct {
	Lost      []RunID // runs that this worker no longer holds; with them the error is ErrLeaseLost
	Conflicts []RunID // runs that have other chunks with the same numbers; with them the error is ErrConflict
}

func (e *AppendError) Error() string {
	var parts []string
	if len(e.Lost) > 0 {
		parts = append(parts, fmt.Sprintf("%v: runs %v", ErrLeaseLost, e.Lost))
	}
	if len(e.Conflicts) > 0 {
		parts = append(parts, fmt.Sprintf("%v: the logs of runs %v have other chunks by these numbers", ErrConflict, e.Conflicts))
	}
	return strings.Join(parts, "; ")
}

// Is reports whether the error is ErrLeaseLost or ErrConflict.
func (e *AppendError) Is(target error) bool {
	return target == ErrLeaseLost && len(e.Lost) > 0 || target == ErrConflict && len(e.Conflicts) > 0
}

// AppendLogs stores chunks of runs that the worker holds, in their order, and notifies the followers of these runs. One statement
// is under way at a time. Concurrent calls wait in line.
//
// It returns nil if all chunks are stored, and an *AppendError if all but those of some runs are, which is final. With ErrUnknown
// the chunks may or may not be stored. With any other error nothing of the statement is stored, or will be later. Sending the
// same chunks again is harmless in each case. pglink.Classify gives the reason: Degraded if the server is out of disk, for
// example.
func (s *Session) AppendLogs(ctx context.Context, chunks []Chunk) error {
	if err := s.end.get(); err != nil {
		return fmt.Errorf("append logs: %w", err)
	}
	for i := range chunks {
		if err := chunks[i].check(); err != nil {
			return fmt.Errorf("append logs: %w", err)
		}
	}
	var left AppendError
	for len(chunks) > 0 {
		n := fitting(chunks)
		a := appending{session: s, chunks: slices.Clone(chunks[:n]), left: &left}
		if err := pglink.Do(ctx, a.send, a.isStored); err != nil {
			return fmt.Errorf("append logs: %w", err)
		}
		chunks = chunks[n:]
	}
	if len(left.Lost)+len(left.Conflicts) > 0 {
		return fmt.Errorf("append logs: %w", &left)
	}
	return nil
}

// check returns an error for a chunk that the database would refuse: too much data, no place in a log, or texts that are not
// UTF-8. Such a chunk must not be sent, because the database would refuse all other chunks of the statement with it.
func (c *Chunk) check() error {
	switch {
	case len(c.Data) > MaxChunkBytes:
		return fmt.Errorf("run %d: chunk %d has %d bytes, at most %d", c.Run, c.Seq, len(c.Data), MaxChunkBytes)
	case c.Seq < 0 || c.Attempt < 1 || c.Dropped < 0 || c.Day.IsZero():
		return fmt.Errorf("run %d: chunk %d of attempt %d, day %s, %d bytes dropped: not a place in a log", c.Run, c.Seq, c.Attempt, c.Day.Format(time.DateOnly), c.Dropped)
	case !utf8.ValidString(c.Reason+c.Task.Item) || strings.Contains(c.Reason+c.Task.Item, "\x00"):
		return fmt.Errorf("run %d: chunk %d: item and reason must be UTF-8 without NUL", c.Run, c.Seq)
	}
	return nil
}

// fitting returns how many chunks from the start of chunks fit into one statement: at least one, if there is one.
func fitting(chunks []Chunk) int {
	bytes := 0
	for i := range chunks {
		if bytes += len(chunks[i].Data); i == MaxAppendChunks || i > 0 && bytes > MaxAppendBytes {
			return i
		}
	}
	return len(chunks)
}

// Followed reports whether a reader follows the log of a run while it is written, as of the last AppendLogs, Commit or
// notification. The output of the run's tasks should then be appended at once.
func (s *Session) Followed(run RunID) bool {
	s.held.mu.Lock()
	defer s.held.mu.Unlock()
	held := s.held.byRun[run]
	return held != nil && held.followed
}

// follow records that readers follow the logs of runs, so that their chunks are sent sooner. Runs without a claim are ignored.
func (h *claimSet) follow(runs []RunID) {
	if len(runs) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, run := range runs {
		if held := h.byRun[run]; held != nil {
			held.followed = true
		}
	}
}

// setFollowed records for each of claims whether readers follow its run's logs: they do if followed contains the run.
func (h *claimSet) setFollowed(claims []*Claim, followed []RunID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range claims {
		if held := h.byRun[c.Run]; held != nil {
			held.followed = slices.Contains(followed, c.Run)
		}
	}
}

// appending is the chunks of one statement, while they are sent.
type appending struct {
	session *Session
	chunks  []Chunk // chunks that are neither known to be stored nor left out
	left    *AppendError
}

// send stores a.chunks. If the database has some of them already, it leaves these out by sift, and tries again, maxCollisions
// times in all.
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
		return errors.New("another writer writes the same logs")
	})
}

// isStored finds out, on another connection, whether all chunks of the statement are stored, and removes the stored ones from
// a.chunks. Making that connection has ended the connection that the statement was sent on, so nothing can be stored later.
func (a *appending) isStored(ctx context.Context) (bool, error) {
	err := a.session.chunks.use(ctx, a.sift)
	return len(a.chunks) == 0, err
}

func isCollision(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23505"
}

// insert stores the chunks of runs that the session holds, and sets a.chunks to nil. It leaves out the chunks of other runs,
// forfeits the claims of those runs, and adds the runs to a.left.Lost. If the worker's fence is gone, it ends the session, and
// returns ErrLeaseLost.
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

// appended is the answer of the statement.
type appended struct {
	Fenced         bool
	Mine, Followed []RunID
}

// appendName is the name of the prepared statement.
const appendName = "oarlock_append"

// appendBuffers hold the data of statements. They are never nil, because nil would be stored as NULL.
var appendBuffers = sync.Pool{New: func() any { b := make([]byte, 0, MaxAppendBytes); return &b }}

// ask sends the statement that stores a.chunks, with args as its other arguments, and returns its answer. It adds the columns
// about the data to args. It encodes the data itself, because pgx would copy all of the data into new memory, more than once.
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

// claims returns the claims of the chunks' runs. It removes chunks of runs that are not held from a.chunks, and adds the runs
// to a.left.Lost.
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

// sift removes the chunks that are stored already from a.chunks. If a different chunk is stored under the number of one of them,
// it removes all chunks of that attempt, and adds the run to a.left.Conflicts.
func (a *appending) sift(ctx context.Context, conn *pgx.Conn) error {
	args := arguments(a.chunks)
	args["data"] = column(a.chunks, content)
	rows, _ := conn.Query(ctx, chunksThereSQL, args) // rows returns the error too
	there := map[int]bool{}                          // by index in chunks: the stored chunk is the same
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

// arguments returns chunks as columns, without their data and their times. The comparison with stored chunks leaves out the
// times, because a chunk that is sent again may have been made again.
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

// content returns the data of a chunk. It is never nil, because nil would be stored as NULL.
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

// attemptKey identifies an attempt among the attempts of all runs.
type attemptKey struct {
	run     RunID
	task    dagrun.TaskID
	attempt int
}

func (c *Chunk) attempt() attemptKey { return attemptKey{c.Run, c.Task, c.Attempt} }

// claimOf returns the claim by which the session holds a run; nil: it does not hold the run.
func (h *claimSet) claimOf(run RunID) *Claim {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held := h.byRun[run]; held != nil {
		return held.claim
	}
	return nil
}
