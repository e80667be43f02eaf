package storetest

import (
	"cmp"
	"context"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// cacheKey identifies one result in the cache.
type cacheKey struct {
	dag                  int64
	submitter, step, key string // "": the result is shared by all submitters
}

type cached struct {
	outputs dagrun.JSON
	until   time.Time // noTime: the result never expires
}

// Cached returns the outputs of an earlier task of the same step under the same cache key. That task ran for the same
// submitter or, with shared, for any.
func (s *MemorySession) Cached(ctx context.Context, id queue.RunID, step, key string, shared bool) (outputs dagrun.JSON, found bool, err error) {
	m := s.store
	if err := m.enter(ctx); err != nil {
		return "", false, err
	}
	defer m.mu.Unlock()
	if err := s.usable(); err != nil {
		return "", false, err
	}
	r, err := m.run(id)
	if err != nil {
		return "", false, nil
	}
	c, ok := m.cache[cacheKeyOf(r, step, key, shared)]
	if !ok || c.until != noTime && !c.until.After(m.now()) {
		return "", false, nil
	}
	return c.outputs, true, nil
}

func cacheKeyOf(r *run, step, key string, shared bool) cacheKey {
	if shared {
		return cacheKey{r.version.dag.id, "", step, key}
	}
	return cacheKey{r.version.dag.id, r.submittedBy, step, key}
}

// keep puts the results of a batch into the cache.
func (m *Memory) keep(b *queue.Batch) {
	for _, k := range b.Keeps {
		for i := range b.Records.Tasks {
			rec := &b.Records.Tasks[i]
			if rec.ID != k.Task || rec.State != dagrun.TaskSucceeded || rec.CacheKey == "" {
				continue
			}
			c := cached{outputs: cmp.Or(rec.Outputs, "{}")}
			if k.TTL != 0 {
				c.until = m.now().Add(k.TTL)
			}
			m.cache[cacheKeyOf(m.runs[b.Claim.Run-1], k.Step, rec.CacheKey, k.Shared)] = c
		}
	}
}
