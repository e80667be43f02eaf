package await

import (
	"bytes"
	"sync"
	"testing"
	"time"
)

const (
	patience    = time.Minute           // only a test that fails waits this long
	maxInterval = 20 * time.Millisecond // a look may be a query, or a scan of all of /proc
)

// True waits until a condition holds. The pauses between looks grow.
func True(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	interval := time.Millisecond
	for end := time.Now().Add(patience); !holds(); interval = min(2*interval, maxInterval) {
		if time.Now().After(end) {
			tb.Fatalf("waited in vain for %v: %s", patience, what)
		}
		pause := time.NewTimer(interval)
		<-pause.C
	}
}

// Buffer collects what several goroutines write. The zero value is empty.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns everything written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
