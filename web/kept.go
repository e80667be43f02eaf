package web

import "sync"

// kept holds values that never change, up to a number: for a new one, any other makes room. The zero value is ready.
type kept[K comparable, V any] struct {
	mu  sync.Mutex
	all map[K]V
}

const keptMax = 256

func (k *kept[K, V]) get(key K) (v V, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok = k.all[key]
	return v, ok
}

func (k *kept[K, V]) put(key K, v V) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[K]V{}
	}
	for other := range k.all {
		if len(k.all) < keptMax {
			break
		}
		delete(k.all, other)
	}
	k.all[key] = v
}
