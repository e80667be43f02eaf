package logship

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

type discard struct{}

func (discard) AppendLogs(context.Context, []queue.Chunk) error { return nil }

// BenchmarkWrite writes blocks into a log, and in turn with it copies them through a pipe's worth of memory as io.Copy
// does; x-copy is the rate of the first over that of the second.
func BenchmarkWrite(b *testing.B) {
	for name, secrets := range map[string][]string{"plain": nil, "masked": {"correct horse battery staple", "hunter2hunter2"}} {
		b.Run(name, func(b *testing.B) {
			s := New(Config{Sink: discard{}, AttemptBytes: 1 << 60})
			defer s.Close()
			l := s.Open(attempt(1), secrets)
			block, target := pattern(ChunkBytes), make([]byte, ChunkBytes)
			b.SetBytes(ChunkBytes)
			var ours, bare time.Duration
			for b.Loop() {
				start := time.Now()
				if _, err := l.Stdout().Write(block); err != nil {
					b.Fatal(err)
				}
				middle := time.Now()
				r, w := io.Pipe()
				go func() {
					_, _ = w.Write(block)
					w.Close()
				}()
				for {
					if _, err := r.Read(target); err != nil {
						break
					}
				}
				ours, bare = ours+middle.Sub(start), bare+time.Since(middle)
			}
			b.ReportMetric(float64(bare)/float64(ours), "x-copy")
			b.StopTimer()
			for _, c := range l.Close("") {
				if c.Dropped > 0 {
					b.Errorf("%d bytes dropped", c.Dropped)
				}
			}
		})
	}
}
