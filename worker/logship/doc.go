// Package logship brings what bodies write to the database: bytes, cut into numbered chunks, of all attempts of a worker
// together.
//
// # From a byte to a row
//
// Shipper.Open gives the Log of an attempt. What is written to it is masked first, then gathered in pieces of one stream;
// pieces are sent when they have ChunkBytes or are FlushInterval old (WatchedInterval where somebody follows the run), all
// attempts in one call of the Sink, one call at a time. A piece gets its number when it is first sent and never changes
// from then on, so that sending it again is harmless whatever became of the first time.
//
// Log.Close ends it: once everything but the last ChunkBytes is stored, it hands these and the final marker to its caller,
// to be stored together with the record of the attempt's end. It waits for that while the sink takes something, of whatever
// log, within each ClosePatience, up to CloseLimit; then what was not sent counts as dropped, what was sent without an answer is handed over
// too, by the same numbers.
//
// # Nothing is lost silently
//
// Pieces wait in memory, and Write for room in it. While the sink fails, or once somebody has waited for SpoolPatience, they go
// to a nameless file. Where that is full, too, Write waits as long as the sink takes something within each WritePatience; past
// that, and past an attempt's own limit, bytes are dropped and counted: the next chunk that is stored says how many were lost
// before it. So of each attempt numbers have no gaps, and bytes stored + bytes dropped = bytes written (as masked).
//
// # Masking
//
// Secrets of at least 4 bytes are replaced, also where one is cut by two writes: as they are, without the blanks around
// them, line by line, and as URLs, JSON, base64 and hex show them. What a program turns into anything else is not
// recognised.
//
// # Concurrency, clocks
//
// A Shipper and a Log may be used by any number of goroutines; after Close, a Log takes nothing more. One goroutine owns
// all that is not being written just now, files included. The times of chunks come from Config.Now, which should be that of
// the database; intervals are local. The package knows no processes and no graph.
package logship
