package queue

import (
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
}

// LogDay is the day under which the log of an attempt is kept, by when it started (TaskRecord.AttemptAt).
func LogDay(at dagrun.Time) time.Time {
	return time.UnixMilli(int64(at)).UTC().Truncate(24 * time.Hour)
}
