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

	"github.com/jackc/pgx/v5"
)

// peers are the other workers that take runs, as a look saw them. They are never changed.
type peers struct {
	others []peer
	terms  string          // under which kinds are known
	kinds  map[int64][]int // the lanes that workers of each kind serve, sorted
}

// serve reports whether another worker that counts may claim from a lane.
func (p *peers) serve(lane int, counts func(peer) bool) bool {
	return slices.ContainsFunc(p.others, func(other peer) bool {
		_, serves := slices.BinarySearch(p.kinds[other.kind], lane)
		return serves && counts(other)
	})
}

// shared are the lanes, of these, that another worker may claim from that counts.
func (p *peers) shared(lanes []int, counts func(peer) bool) (shared []int) {
	for _, lane := range lanes {
		if p.serve(lane, counts) {
			shared = append(shared, lane)
		}
	}
	return shared
}

// rivals counts the workers that have room and may claim from one of these lanes, which are sorted.
func (p *peers) rivals(lanes []int) (n int) {
	for _, other := range p.others {
		if other.hungry && slices.ContainsFunc(p.kinds[other.kind], func(id int) bool {
			_, ours := slices.BinarySearch(lanes, id)
			return ours
		}) {
			n++
		}
	}
	return n
}

func anyPeer(peer) bool      { return true }
func hungryPeer(p peer) bool { return p.hungry }

// withoutRoom are lanes that no hungry worker serves: what is claimed of them ahead of free slots, nobody else would start now.
func (c *claimer) withoutRoom(ordered []*lane) []*lane {
	p := c.x.peers.Load()
	return slices.DeleteFunc(slices.Clone(ordered), func(l *lane) bool { return p.serve(l.ID, hungryPeer) })
}

// kindsOf reads which lanes workers of each kind serve, once for each kind under the same terms. This worker's own lanes are sorted.
func (l *lookout) kindsOf(ctx context.Context, others []peer, view *laneView, own []int) (map[int64][]int, error) {
	kinds := map[int64][]int{}
	if before := l.x.peers.Load(); before.terms == view.terms {
		maps.Copy(kinds, before.kinds)
	}
	var errs []error
	for _, p := range others {
		if _, known := kinds[p.kind]; known {
			continue
		}
		if p.kind == l.kind {
			kinds[p.kind] = own
			continue
		}
		theirs := newLanes()
		err := l.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error { return theirs.read(ctx, conn, p.id) })
		if err != nil {
			errs = append(errs, fmt.Errorf("read lanes of worker %s: %w", p.id, err))
		} else if theirs.terms == view.terms {
			kinds[p.kind] = slices.Sorted(slices.Values(argsOf(theirs.all).ids))
		}
	}
	return kinds, errors.Join(errs...)
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
