// Package logship brings the output of bodies to the database: as bytes, cut into numbered chunks, for all attempts of a worker
// together.
//
// # From a byte to a row
//
// Shipper.Open returns the Log of an attempt. Output written to a Log is first masked, and then gathered into pieces of one
// stream. Pieces are sent when they have ChunkBytes or are FlushInterval old (WatchedInterval if a reader follows the run). One
// call of the Sink has pieces of all attempts, and there is one call at a time. A piece gets its number when it is first sent,
// and does not change afterwards, so that sending it again is harmless, whether or not the first call stored it.
//
// Log.Close ends the log. Once everything but the last ChunkBytes is stored, it returns these and the final marker to its caller,
// which stores them together with the record of the attempt's end. It waits as long as the sink stores something, of any log,
// within each ClosePatience, up to CloseLimit. After that, pieces that were not sent count as dropped, and pieces that were sent
// without an answer are returned, too, with the same numbers.
//
// # Losses are counted
//
// Pieces wait in memory, and Write waits for room in memory. While the sink fails, or once a Write has waited for SpoolPatience,
// pieces go to a nameless file. If that is full, too, Write waits as long as the sink stores something within each WritePatience.
// After that, and beyond the limit of an attempt, bytes are dropped and counted: the next stored chunk has the number of bytes
// lost before it. So the numbers of an attempt's chunks have no gaps, and bytes stored + bytes dropped = bytes written (as
// masked).
//
// # Masking
//
// Secrets of at least 4 bytes are replaced, even if two writes split them. They are recognised as they are, without surrounding
// blanks, line by line, and in the encodings of URLs, JSON, base64 and hex. A secret that a program encodes in another way is not
// recognised.
//
// # Concurrency, clocks
//
// A Shipper and a Log are safe for concurrent use. After Close, a Log takes nothing more. One goroutine, the loop, owns all pieces
// that are not being written to, and the spool file. The times of chunks come from Config.Now, which should be the database's
// clock; intervals are on the local clock. The package does not know processes or the graph.
package logship
