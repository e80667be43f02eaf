package queue

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

// MaxLineBytes bounds what a LogLine shows of its line.
const MaxLineBytes = 16 << 10

// LogLine is a line of the log of an attempt.
type LogLine struct {
	Number  int64 // counted from 1 over all streams, by where the line begins; it never changes
	Stream  Stream
	At      time.Time // when the chunk was made in which it begins
	Text    []byte    // any bytes, without the newline; at most MaxLineBytes
	Cut     bool      // the rest of it is left out
	Dropped int64     // bytes that were lost before it
	Open    bool      // it has not ended yet
}

// lineReader makes lines of the chunks of one attempt's log, which it takes in their order. The zero lineReader begins where
// the log does.
type lineReader struct {
	lines   []LogLine             // by number
	begun   int64                 // lines before the next chunk
	dropped int64                 // bytes since a line began
	open    [StreamStderr + 1]int // the line of the stream that has not ended, by its place in lines, counted from 1; zero: none
}

// add takes the next chunk. What goes on of a line that began before the reader did is left out.
func (r *lineReader) add(c *Chunk) {
	if c.Dropped > 0 {
		r.closeAll()
		r.dropped += c.Dropped
	}
	number, begins := r.begun, c.Lines-r.begun > innerNewlines(c.Data)
	for rest := c.Data; len(rest) > 0; begins = true {
		text, after, ended := bytes.Cut(rest, []byte{'\n'})
		rest = after
		if begins {
			number++
			r.close(c.Stream)
			r.lines = append(r.lines, LogLine{Number: number, Stream: c.Stream, At: c.At, Dropped: r.dropped, Open: true})
			r.open[c.Stream], r.dropped = len(r.lines), 0
		}
		if place := r.open[c.Stream]; place > 0 {
			r.lines[place-1].add(text)
		}
		if ended {
			r.close(c.Stream)
		}
	}
	if len(c.Data) == 0 {
		r.skip(c.Lines) // lines of a stream that is left out
	}
	r.begun = c.Lines
	if c.Final {
		r.closeAll()
	}
}

// skip goes on behind chunks that were left out, in which lines may have begun: what was lost before them is theirs.
func (r *lineReader) skip(lines int64) {
	if lines > r.begun {
		r.begun, r.dropped = lines, 0
	}
}

func (l *LogLine) add(text []byte) {
	room := MaxLineBytes - len(l.Text)
	switch {
	case l.Cut:
	case len(text) > room:
		l.Text, l.Cut = append(l.Text, text[:room]...), true
	case l.Text == nil:
		l.Text = slices.Clip(text) // appending to it copies
	default:
		l.Text = append(l.Text, text...)
	}
}

func (r *lineReader) close(stream Stream) {
	if place := r.open[stream]; place > 0 {
		r.lines[place-1].Open = false
	}
	r.open[stream] = 0
}

func (r *lineReader) closeAll() {
	for stream := range r.open {
		r.close(Stream(stream))
	}
}

// halt says of the lines that have not ended where the reader stops, whether more of them stands behind that place, and
// whether they may go on at all.
func (r *lineReader) halt(cut, goesOn bool) {
	for _, place := range r.open {
		if place > 0 {
			line := &r.lines[place-1]
			line.Cut, line.Open = line.Cut || cut, goesOn
		}
	}
}

// between returns the lines from begin on, up to and without end.
func (r *lineReader) between(begin, end int64) []LogLine {
	place := func(number int64) int {
		i, _ := slices.BinarySearchFunc(r.lines, number, func(l LogLine, n int64) int { return cmp.Compare(l.Number, n) })
		return i
	}
	return r.lines[place(begin):place(end)]
}
