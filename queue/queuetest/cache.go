package queuetest

import (
	"cmp"
	"context"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// cacheKey is what a result is found by.
type cacheKey struct {
	dag       int64
	step, key string
}

type cached struct {
	outputs dagrun.JSON
	until   time.Time // noTime: for good
}

// Cached is what an earlier task of a step put out under a cache key.
func (s *MemorySession) Cached(ctx context.Context, dagID int64, step, key string) (outputs dagrun.JSON, found bool, err error) {
	m := s.store
	if err := m.enter(ctx); err != nil {
		return "", false, err
	}
	defer m.mu.Unlock()
	if err := s.usable(); err != nil {
		return "", false, err
	}
	c, ok := m.cache[cacheKey{dagID, step, key}]
	if !ok || c.until != noTime && !c.until.After(m.now()) {
		return "", false, nil
	}
	return c.outputs, true, nil
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
			m.cache[cacheKey{b.Claim.DAGID, k.Step, rec.CacheKey}] = c
		}
	}
}
