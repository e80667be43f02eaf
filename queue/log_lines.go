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

// LineReader makes lines of the chunks of one attempt's log, which it takes in their order. The zero LineReader begins where
// the log does. It belongs to one goroutine.
type LineReader struct {
	lines   int64 // begun before the next chunk
	dropped int64 // bytes since a line began
	open    [StreamStderr + 1]*LogLine
	changed []LogLine
}

// Add returns the lines that began, went on or ended in a chunk, each as a whole, by number. What goes on of a line that
// began before the reader did is left out.
func (r *LineReader) Add(c *Chunk) []LogLine {
	r.changed = nil
	if c.Dropped > 0 {
		r.closeAll()
		r.dropped += c.Dropped
	}
	number, begins := r.lines, c.Lines-r.lines > innerNewlines(c.Data)
	for rest := c.Data; len(rest) > 0; begins = true {
		text, after, ended := bytes.Cut(rest, []byte{'\n'})
		rest = after
		if begins {
			number++
			r.close(c.Stream)
			r.open[c.Stream] = &LogLine{Number: number, Stream: c.Stream, At: c.At, Dropped: r.dropped, Open: true}
			r.dropped = 0
		}
		if line := r.open[c.Stream]; line != nil {
			line.add(text)
			if ended {
				r.close(c.Stream)
			} else {
				r.change(*line)
			}
		}
	}
	if len(c.Data) == 0 && c.Lines > r.lines { // they are another reader's
		r.dropped = 0
	}
	r.lines = c.Lines
	if c.Final {
		r.closeAll()
	}
	slices.SortFunc(r.changed, func(a, b LogLine) int { return cmp.Compare(a.Number, b.Number) })
	return r.changed
}

// skip goes on behind chunks that were left out, in which lines may have begun: what was lost before them is theirs.
func (r *LineReader) skip(lines int64) {
	if lines > r.lines {
		r.lines, r.dropped = lines, 0
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

func (r *LineReader) close(stream Stream) {
	if line := r.open[stream]; line != nil {
		line.Open = false
		r.change(*line)
		r.open[stream] = nil
	}
}

func (r *LineReader) closeAll() {
	for stream := range r.open {
		r.close(Stream(stream))
	}
}

// change reports a line as it is now, instead of as it was before in the same chunk.
func (r *LineReader) change(line LogLine) {
	i := slices.IndexFunc(r.changed[max(0, len(r.changed)-len(r.open)):], func(l LogLine) bool { return l.Number == line.Number })
	if i < 0 {
		r.changed = append(r.changed, line)
		return
	}
	r.changed[max(0, len(r.changed)-len(r.open))+i] = line
}

// halt returns the lines that have not ended where the reader stops for now: whether more of them stands behind that place,
// and whether they may go on at all.
func (r *LineReader) halt(cut, goesOn bool) []LogLine {
	r.changed = nil
	for _, line := range r.open {
		if line != nil {
			line.Cut, line.Open = line.Cut || cut, goesOn
			r.change(*line)
		}
	}
	return r.changed
}

// clone is a reader that goes on from the same place by itself.
func (r *LineReader) clone() *LineReader {
	c := &LineReader{lines: r.lines, dropped: r.dropped}
	for stream, line := range r.open {
		if line != nil {
			own := *line
			own.Text, own.Open = slices.Clip(own.Text), true
			c.open[stream] = &own
		}
	}
	return c
}
