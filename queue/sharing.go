package queue

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

var wakeOthers = sql.Named("queue/wake")

// maxTold bounds the lanes that a worker remembers to have been words of.
const maxTold = 1000

// words are what notifications said since the last poll: lanes, and how many new runs of each are this worker's to look for.
type words struct {
	mu    sync.Mutex
	lanes map[int]int64
}

func (t *words) add(lanes map[int]int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lanes == nil {
		t.lanes = map[int]int64{}
	}
	for lane, rows := range lanes {
		if _, known := t.lanes[lane]; known || len(t.lanes) < maxTold {
			t.lanes[lane] += rows
		}
	}
}

func (t *words) take() map[int]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	lanes := t.lanes
	t.lanes = nil
	return lanes
}

// passOn tells other hungry workers of runs that this one was words of and has no room for. Its own row says by now that it is not
// hungry, so the word goes to each worker once.
func (s *Session) passOn(ctx context.Context, words map[int]int64, free int, claims []*Claim) error {
	if len(claims) < free || len(words) == 0 || len(s.peers.others) == 0 {
		return nil
	}
	for _, c := range claims {
		if words[c.Lane]--; words[c.Lane] <= 0 {
			delete(words, c.Lane)
		}
	}
	var lanes []int
	var rows []int64
	for _, lane := range slices.Sorted(maps.Keys(words)) {
		lanes, rows = append(lanes, lane), append(rows, max(words[lane], 1))
	}
	if len(lanes) == 0 {
		return nil
	}
	return s.claims.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, wakeOthers, pgx.StrictNamedArgs{"lanes": lanes, "rows": rows}); err != nil {
			return fmt.Errorf("wake others: %w", err)
		}
		return nil
	})
}

// kindOf is the same for workers that serve the same lanes, and 0 for one that serves none.
func kindOf(w *Worker) int64 {
	if w.Only != 0 {
		return 0
	}
	labels := w.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	text, err := json.Marshal([]any{slices.Sorted(slices.Values(w.Queues)), labels, w.Slots, slices.Sorted(slices.Values(w.Offers))})
	if err != nil {
		panic(fmt.Sprintf("queue: worker %+v has no kind: %v", w, err))
	}
	h := fnv.New64a()
	_, _ = h.Write(text)
	return int64(binary.BigEndian.Uint64(h.Sum(nil)) | 1)
}

// learnKinds reads which lanes workers of other kinds serve, once for each kind under the same terms.
func (s *Session) learnKinds(ctx context.Context) error {
	var errs []error
	for _, p := range s.peers.others {
		if _, known := s.lanes.kinds[p.kind]; known {
			continue
		}
		if p.kind == s.kind {
			s.lanes.kinds[p.kind] = idsOf(s.lanes.all)
			continue
		}
		theirs := newLanes()
		err := s.claims.use(ctx, func(ctx context.Context, conn *pgx.Conn) error { return theirs.read(ctx, conn, p.id) })
		if err != nil {
			errs = append(errs, fmt.Errorf("read lanes of worker %s: %w", p.id, err))
			continue
		}
		if theirs.terms == s.lanes.terms {
			s.lanes.kinds[p.kind] = idsOf(theirs.all)
		}
	}
	return errors.Join(errs...)
}

func idsOf(all []*lane) []int {
	ids := make([]int, len(all))
	for i, l := range all {
		ids[i] = l.ID
	}
	slices.Sort(ids)
	return ids
}

// sharedLanes are those of this worker that another one may serve that is at work and counts, sorted.
func (s *Session) sharedLanes(counts func(peer) bool) []int {
	var shared []int
	for _, l := range s.lanes.all {
		if s.servedBy(l, counts) {
			shared = append(shared, l.ID)
		}
	}
	slices.Sort(shared)
	return shared
}

// rivals counts the workers that have room and may serve a lane of this one's.
func (s *Session) rivals() (n int) {
	for _, p := range s.peers.others {
		if p.hungry && slices.ContainsFunc(s.lanes.kinds[p.kind], func(id int) bool { return s.lanes.byID[id] != nil }) {
			n++
		}
	}
	return n
}

// withoutRoom are lanes that no hungry worker serves: what is claimed of them ahead of free slots, nobody else would start now.
func (s *Session) withoutRoom(ordered []*lane) []*lane {
	return slices.DeleteFunc(slices.Clone(ordered), func(l *lane) bool {
		return s.servedBy(l, func(p peer) bool { return p.hungry })
	})
}

func (s *Session) servedBy(l *lane, counts func(peer) bool) bool {
	return slices.ContainsFunc(s.peers.others, func(p peer) bool {
		_, serves := slices.BinarySearch(s.lanes.kinds[p.kind], l.ID)
		return serves && counts(p)
	})
}

// hungerLasts is for how long a worker that became hungry looks closely for what older transactions commit.
const hungerLasts = 2 * time.Second

// hunger is since when a worker has been hungry. Who enters a run after that tells it; who did before, and commits later, does
// not.
type hunger struct {
	is    bool
	xid   uint64
	since time.Duration
}

// waits takes in whether the worker is hungry after a poll, and says whether an older transaction may still commit runs.
func (h *hunger) waits(hungry bool, seen *horizon, now time.Duration) bool {
	if !hungry || len(seen.marks) == 0 {
		h.is = false
		return false
	}
	if !h.is {
		*h = hunger{is: true, xid: seen.marks[len(seen.marks)-1].xid, since: now}
	}
	return now-h.since < hungerLasts && seen.older(h.xid)
}
