package queue

import (
	"testing"
	"time"
)

// BenchmarkMeter measures what a flush costs more because its Meter counts.
func BenchmarkMeter(b *testing.B) {
	for name, flushed := range map[string]func(FlushTry){"off": nil, "on": func(FlushTry) {}} {
		b.Run(name, func(b *testing.B) {
			j := &journal{journalConfig: journalConfig{flushed: flushed}}
			j.flush = newFlush(j)
			b.ReportAllocs()
			for b.Loop() {
				j.pulse.rest()
				j.pulse.beat()
				j.pulse.beat()
				start := time.Now()
				j.meter(1, start, nil)
			}
		})
	}
}
