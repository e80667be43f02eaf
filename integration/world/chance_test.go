package world

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// draw returns a source of chance for one purpose. The same seed and purpose give the same numbers at any time.
func draw(seed uint64, purpose ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintln(h, purpose...)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// stream returns chance as bytes.
type stream struct {
	mu sync.Mutex
	*rand.Rand
}

func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 0; i < len(p); i += 8 {
		var word [8]byte
		binary.NativeEndian.PutUint64(word[:], s.Uint64())
		copy(p[i:], word[:])
	}
	return len(p), nil
}

func oneIn(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

// span draws a time between two bounds, to the nanosecond, so that no two are alike.
func span(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}
