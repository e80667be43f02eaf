package logship

import "sync/atomic"

// Stats count bytes of output since the shipper was made. All bytes of a closed log are either Stored or Dropped.
type Stats struct {
	Stored  int64 // stored by the sink, or returned by Log.Close
	Dropped int64 // lost, and counted in chunks as lost
	Spooled int64 // moved to disk for a while
	Waiting int64 // memory in use for pieces, pieceCost included
}

// counters are the numbers behind Stats.
type counters struct{ stored, dropped, spooled atomic.Int64 }

// Stats returns the present numbers.
func (s *Shipper) Stats() Stats {
	return Stats{
		Stored: s.count.stored.Load(), Dropped: s.count.dropped.Load(), Spooled: s.count.spooled.Load(), Waiting: s.memory.Load(),
	}
}
