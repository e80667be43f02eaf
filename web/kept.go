package web

import "sync"

// kept is a cache of up to keptMax values. When it is full, a new value replaces an arbitrary old one. The zero value is ready.
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
	k.putLocked(key, v)
}

// putNew puts v unless the key has a value already. In that case it returns the value before and taken is true.
func (k *kept[K, V]) putNew(key K, v V) (before V, taken bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if before, taken = k.all[key]; !taken {
		k.putLocked(key, v)
	}
	return before, taken
}

func (k *kept[K, V]) drop(key K) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.all, key)
}

func (k *kept[K, V]) clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.all)
}

func (k *kept[K, V]) putLocked(key K, v V) {
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
