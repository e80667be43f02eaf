package logship

import "sync/atomic"

// Stats count bytes that bodies wrote since the shipper was made. Of a log that was closed everything is Stored or Dropped.
type Stats struct {
	Stored  int64 // by the sink, or handed over when their log was closed
	Dropped int64 // lost, as the chunks say too
	Spooled int64 // moved to disk for a while
	Waiting int64 // what memory holds at the moment, with what that costs besides the bytes
}

// counters are what Stats are made of.
type counters struct{ stored, dropped, spooled atomic.Int64 }

// Stats show the shipper at this moment.
func (s *Shipper) Stats() Stats {
	return Stats{
		Stored: s.count.stored.Load(), Dropped: s.count.dropped.Load(), Spooled: s.count.spooled.Load(), Waiting: s.memory.Load(),
	}
}
