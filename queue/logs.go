package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/sql"
)

// Bounds of one statement of AppendLogs. A call within them is stored in one piece or not at all, but for what an
// *AppendError leaves out.
const (
	MaxAppendChunks = 256
	MaxAppendBytes  = 1 << 20
)

// maxCollisions bounds how often a batch is sent without what turned out to be there. Nobody else writes what is ours, so
// once is enough.
const maxCollisions = 3

var (
	appendSQL      = sql.Named("queue/append")
	chunksThereSQL = sql.Named("queue/chunks_there")
)

// AppendError names the runs whose chunks were left out. All others were stored.
type AppendError struct {
	Lost      []RunID // not this worker's any more: counts as ErrLeaseLost
	Conflicts []RunID // have other chunks by the same numbers: counts as ErrConflict
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

// Is makes errors.Is work.
func (e *AppendError) Is(target error) bool {
	return target == ErrLeaseLost && len(e.Lost) > 0 || target == ErrConflict && len(e.Conflicts) > 0
}

// AppendLogs stores chunks of runs that the worker holds, in their order, and tells who follows them. One statement is
// under way at a time; concurrent calls queue up.
//
// nil: all are stored. *AppendError: all but those of some runs, which is final. ErrUnknown: nobody knows. With any other
// error nothing of the statement is stored, nor will be later. Sending the same chunks again is harmless in each case.
// pglink.Classify tells why: Degraded, when the server is out of disk.
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

// check refuses what the database would refuse together with the chunks of others.
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

// fitting is how many of the first chunks one statement takes.
func fitting(chunks []Chunk) int {
	bytes := 0
	for i := range chunks {
		if bytes += len(chunks[i].Data); i == MaxAppendChunks || i > 0 && bytes > MaxAppendBytes {
			return i
		}
	}
	return len(chunks)
}

// Followed says whether somebody reads the log of a run while it is written, as the last AppendLogs or Commit found it, or a
// notification said. What its tasks put out is then worth appending at once.
func (s *Session) Followed(run RunID) bool {
	s.held.mu.Lock()
	defer s.held.mu.Unlock()
	held := s.held.byRun[run]
	return held != nil && held.followed
}

// follow takes note that somebody follows the logs of runs.
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

func (h *claimSet) setFollowed(claims []*Claim, followed []RunID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range claims {
		if held := h.byRun[c.Run]; held != nil {
			held.followed = slices.Contains(followed, c.Run)
		}
	}
}
