package queue

import (
	"bytes"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Stream tells where a chunk came from.
type Stream int16

// Streams.
const (
	StreamOarlock Stream = iota // ours: markers, notes
	StreamStdout
	StreamStderr
)

// MaxChunkBytes bounds the data of one chunk.
const MaxChunkBytes = 64 << 10

// Chunk is a numbered piece of the log of an attempt. Numbers start at 0 and have no gaps.
type Chunk struct {
	Run     RunID
	Task    dagrun.TaskID
	Attempt int
	Day     time.Time // LogDay of when the attempt started
	Seq     int
	Stream  Stream
	At      time.Time
	Data    []byte
	Step    string // the name of Task's step, a replacement's as step~1, when the logs of a whole run are read

	Final   bool   // nothing comes after it
	Reason  string // of a final chunk: how the attempt ended, in a word
	Dropped int64  // bytes that were lost before this chunk
	Lines   int64  // how many lines of the attempt, over all streams, had begun by its end: see LineCounter
}

// LogDay is the day under which the log of an attempt is kept, by when it started (TaskRecord.AttemptAt).
func LogDay(at dagrun.Time) time.Time {
	return time.UnixMilli(int64(at)).UTC().Truncate(24 * time.Hour)
}

// LineCounter numbers the lines of an attempt's log while its chunks are made: its writer calls Count for each chunk, in their
// order. A line begins with the first byte of a stream, after a newline of the same stream, and after dropped bytes, since
// they may have ended any line.
type LineCounter struct {
	Lines int64 // begun so far; a writer that goes on with a log begins with those that are stored

	open [StreamStderr + 1]bool // streams whose last byte was no newline
}

// Count sets the Lines of the next chunk.
func (l *LineCounter) Count(c *Chunk) {
	if c.Dropped > 0 {
		l.open = [StreamStderr + 1]bool{}
	}
	if len(c.Data) > 0 {
		l.Lines += innerNewlines(c.Data)
		if !l.open[c.Stream] {
			l.Lines++
		}
		l.open[c.Stream] = c.Data[len(c.Data)-1] != '\n'
	}
	c.Lines = l.Lines
}

// innerNewlines counts the newlines that more data follows.
func innerNewlines(data []byte) int64 {
	return int64(bytes.Count(data[:max(0, len(data)-1)], []byte{'\n'}))
}
