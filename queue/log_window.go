package queue

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/oarlock-dev/oarlock/sql"
)

// Bounds of reading lines of logs.
const (
	DefaultWindowLines = 500
	MaxWindowLines     = 1000
	windowBytes        = 1 << 20 // of one statement; a quarter more if lines go on behind that
	searchLines        = 1 << 20 // of one statement of a search, which its bytes bound first
	DefaultSearchBytes = 64 << 20
	DefaultSearchHits  = 100
	MaxSearchHits      = 1000
)

var logWindowSQL = sql.Named("queue/log_window")

// LogWindowQuery selects lines of the log of an attempt.
type LogWindowQuery struct {
	Run        RunID
	Step, Item string  // Step as in Ask; a replacement is load~1
	Attempt    int     // 0: the latest attempt that may have a log
	From       int64   // number of the first line; 0: the last Lines lines
	Lines      int     // at most MaxWindowLines; 0: DefaultWindowLines
	Stream     *Stream // nil: all streams
}

// LogWindow is a part of the log of an attempt, at one moment.
type LogWindow struct {
	Attempt    int // 0: no attempt of the task can have a log yet
	Lines      []LogLine
	Begin, End int64 // it holds the lines from Begin up to, but without, End, if they are of the wanted stream
	Total      int64 // lines of all streams that have begun
	Final      bool
	Reason     string // of a final log: how the attempt ended, in one word
}

// LogWindow reads some lines of a log that the user is allowed to see: up to q.Lines lines from q.From on, or the last ones if
// From is 0. It reads a bounded amount, however long the log and its lines are. So a window may have fewer lines than requested.
// The next window then begins at its End.
func (s *Store) LogWindow(ctx context.Context, q LogWindowQuery) (*LogWindow, error) {
	if q.Lines <= 0 {
		q.Lines = DefaultWindowLines
	}
	q.Lines = min(q.Lines, MaxWindowLines)
	part, err := s.readWindow(ctx, q)
	if err != nil {
		return nil, wrapError("read log", err)
	}
	w := &part.LogWindow
	if q.From < 1 {
		w.keepLast(q.Lines)
	} else if len(w.Lines) > q.Lines {
		w.End, w.Lines = w.Lines[q.Lines].Number, w.Lines[:q.Lines]
	}
	return w, nil
}

// windowPart is a window, with how much was read for it.
type windowPart struct {
	LogWindow

	bytes int64
}

// windowRow is a chunk of a window. The last row describes the window instead.
type windowRow struct {
	chunk  Chunk
	before int64 // number of lines that had begun before the chunk

	attempt int   // in the last row only, like the fields below
	total   int64 // number of lines that have begun
	looked  int   // number of the last chunk that was read
}

func (s *Store) readWindow(ctx context.Context, q LogWindowQuery) (*windowPart, error) {
	rows, err := list(ctx, s, logWindowSQL, pgx.StrictNamedArgs{
		"run": q.Run, "step": q.Step, "item": q.Item, "attempt": given(q.Attempt), "first": given(max(q.From, 0)), "most": q.Lines,
		"stream": q.Stream, "bytes": windowBytes,
	}, func(row pgx.CollectableRow) (windowRow, error) { return scanWindow(row) })
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return &windowPart{LogWindow: LogWindow{Begin: 1, End: 1}}, s.hasStep(ctx, q)
	}
	return windowOf(rows), nil
}

// windowOf makes the window of the rows of one log. The last row describes the window, and the others are its chunks, so there
// must be at least one row.
func windowOf(rows []windowRow) *windowPart {
	last := rows[len(rows)-1]
	part := &windowPart{LogWindow: LogWindow{
		Attempt: last.attempt, Begin: last.before + 1, End: last.chunk.Lines + 1, Total: last.total, Final: last.chunk.Final, Reason: last.chunk.Reason,
	}}
	var reader lineReader
	for _, row := range rows[:len(rows)-1] {
		reader.skip(row.before)
		reader.add(&row.chunk)
		part.bytes += int64(len(row.chunk.Data))
	}
	whole, cut := part.End > part.Total, last.looked < last.chunk.Seq
	reader.halt(cut, !part.Final && (whole || !cut))
	part.Lines = reader.between(part.Begin, part.End)
	return part
}

// keepLast removes all but the last lines from w, and sets w.Begin to the number of the first line that is left. It does nothing
// if w has no more lines than that.
func (w *LogWindow) keepLast(lines int) {
	if extra := len(w.Lines) - lines; extra > 0 {
		w.Begin, w.Lines = w.Lines[extra].Number, w.Lines[extra:]
	}
}

// scanWindow scans a row of a window. before are the targets of the columns that the row has in front of those of the window.
func scanWindow(row pgx.CollectableRow, before ...any) (w windowRow, err error) {
	c := &w.chunk
	err = row.Scan(append(before, &c.Seq, &c.Stream, (*zeronull.Timestamptz)(&c.At), &c.Data, &c.Final, &c.Reason, &c.Dropped, &c.Lines, &w.before,
		&w.attempt, &w.total, &w.looked)...)
	return w, err
}

// hasStep returns ErrNotFound if the run or the step of q does not exist, or if the user is not allowed to see it. It returns nil
// for a task that has no log yet.
func (s *Store) hasStep(ctx context.Context, q LogWindowQuery) error {
	r := logReader{store: s, query: LogQuery{Run: q.Run, Step: q.Step, Item: q.Item}}
	return r.begin(ctx)
}

// LogSearch is a search for lines of the log of an attempt.
type LogSearch struct {
	Run        RunID
	Step, Item string
	Attempt    int // 0: the latest attempt that may have a log
	Pattern    *regexp.Regexp
	Stream     *Stream // nil: all streams
	From       int64   // number of the first line to search; 0: 1
	Hits       int     // at most MaxSearchHits; 0: DefaultSearchHits
	MaxBytes   int64   // how much to search; 0: DefaultSearchBytes
}

// LogHits are the lines that a search found.
type LogHits struct {
	Attempt int
	Lines   []LogLine
	Next    int64 // From of the search that goes on from here; 0: all existing lines were searched
	Final   bool  // the log is complete, so there will be no more hits
}

// SearchLog finds the lines of a log that match q.Pattern. It compares the text as LogLine holds it, without a carriage return at
// its end. It stops early at its bounds, Hits and MaxBytes, and when ctx ends after it has searched something. It then returns
// the hits so far, and Next says where to go on.
func (s *Store) SearchLog(ctx context.Context, q LogSearch) (*LogHits, error) {
	if q.Hits <= 0 {
		q.Hits = DefaultSearchHits
	}
	if q.MaxBytes <= 0 {
		q.MaxBytes = DefaultSearchBytes
	}
	hits := &LogHits{Attempt: q.Attempt, Next: max(q.From, 1)}
	for most := min(q.Hits, MaxSearchHits); q.MaxBytes > 0; {
		part, err := s.readWindow(ctx, LogWindowQuery{
			Run: q.Run, Step: q.Step, Item: q.Item, Attempt: hits.Attempt, From: hits.Next, Lines: searchLines, Stream: q.Stream,
		})
		if err != nil {
			if ctx.Err() != nil && hits.Attempt != 0 && hits.Next > max(q.From, 1) {
				return hits, nil
			}
			return nil, wrapError("search log", err)
		}
		hits.Attempt = part.Attempt // a later attempt has another log
		for _, line := range part.Lines {
			if !q.Pattern.Match(bytes.TrimSuffix(line.Text, []byte("\r"))) {
				continue
			}
			if len(hits.Lines) == most {
				hits.Next = line.Number
				return hits, nil
			}
			line.Text = bytes.Clone(line.Text) // its text is part of its chunk
			hits.Lines = append(hits.Lines, line)
		}
		if hits.Next, hits.Final = part.End, part.Final; part.End > part.Total {
			hits.Next = 0
			return hits, nil
		}
		hits.Final = false
		q.MaxBytes -= max(part.bytes, 1)
	}
	return hits, nil
}

// MaxLineBytes bounds the text of a LogLine.
const MaxLineBytes = 16 << 10

// LogLine is a line of the log of an attempt.
type LogLine struct {
	Number  int64 // counts the lines of all streams from 1, in the order in which they begin; it never changes
	Stream  Stream
	At      time.Time // when the chunk in which the line begins was made
	Text    []byte    // any bytes, without the newline; at most MaxLineBytes
	Cut     bool      // the rest of the line is left out
	Dropped int64     // bytes that were lost before the line
	Open    bool      // the line has not ended yet
}

// lineReader makes lines from the chunks of one attempt's log, in their order. The zero lineReader begins at the start of the
// log.
type lineReader struct {
	lines   []LogLine             // by number
	begun   int64                 // number of lines before the next chunk
	dropped int64                 // bytes dropped since a line began
	open    [StreamStderr + 1]int // for each stream, the index in lines, counted from 1, of its unfinished line; 0: none
}

// add splits the next chunk into r.lines. A line without its end stays open, and the next chunk of its stream continues it.
// add leaves out the rest of a line that began before the reader did.
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
		r.skip(c.Lines) // count the lines of a stream that is left out
	}
	r.begun = c.Lines
	if c.Final {
		r.closeAll()
	}
}

// skip takes the number of lines that have begun before the next chunk. If that is more than the reader knows, chunks were left out:
// it raises r.begun, and clears r.dropped, because lost bytes count for the lines that were left out.
func (r *lineReader) skip(lines int64) {
	if lines > r.begun {
		r.begun, r.dropped = lines, 0
	}
}

// add appends text to the line, up to MaxLineBytes in all. If text does not fit, it sets l.Cut, and leaves out the rest and all
// later texts. The line may share the memory of the first text.
func (l *LogLine) add(text []byte) {
	room := MaxLineBytes - len(l.Text)
	switch {
	case l.Cut:
	case len(text) > room:
		l.Text, l.Cut = append(l.Text, text[:room]...), true
	case l.Text == nil:
		l.Text = slices.Clip(text) // so that appending to it copies it
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

// halt marks the lines that have no end yet, after the last chunk was added. cut means that their rest was not read: their Cut is
// set. goesOn becomes their Open: the log may still bring more of them.
func (r *lineReader) halt(cut, goesOn bool) {
	for _, place := range r.open {
		if place > 0 {
			line := &r.lines[place-1]
			line.Cut, line.Open = line.Cut || cut, goesOn
		}
	}
}

// between returns the lines with numbers from begin up to, but without, end. The result is part of r.lines.
func (r *lineReader) between(begin, end int64) []LogLine {
	place := func(number int64) int {
		i, _ := slices.BinarySearchFunc(r.lines, number, func(l LogLine, n int64) int { return cmp.Compare(l.Number, n) })
		return i
	}
	return r.lines[place(begin):place(end)]
}

// MaxLogTails bounds the logs that LogTails reads.
const MaxLogTails = 20

const tailBytes = 64 << 10 // of one log

var logTailsSQL = sql.Named("queue/log_tails")

// LogOf identifies the task of a log. Step is as in Ask; a replacement is load~1.
type LogOf struct{ Step, Item string }

// LogTails reads the last lines of the latest attempts of some tasks of a run, and returns one window for each task, in the order
// of tasks. It reads from 1 to MaxWindowLines lines of at most MaxLogTails tasks, and returns an error for other numbers. A
// window may have fewer lines, because it reads a bounded amount. A task without a log, or of a run that the user is not allowed
// to see, has a window with attempt 0.
func (s *Store) LogTails(ctx context.Context, run RunID, tasks []LogOf, lines int) ([]LogWindow, error) {
	const op = "read the ends of logs"
	if len(tasks) > MaxLogTails || lines < 1 || lines > MaxWindowLines {
		return nil, wrapError(op, fmt.Errorf("1 to %d lines of at most %d logs are read, not %d of %d", MaxWindowLines, MaxLogTails, lines, len(tasks)))
	}
	steps, items := make([]string, len(tasks)), make([]string, len(tasks))
	for i, task := range tasks {
		steps[i], items[i] = task.Step, task.Item
	}
	rows, err := list(ctx, s, logTailsSQL, pgx.StrictNamedArgs{"run": run, "steps": steps, "items": items, "most": lines, "bytes": tailBytes}, scanTail)
	if err != nil {
		return nil, wrapError(op, err)
	}
	windows := make([]LogWindow, len(tasks))
	for len(rows) > 0 {
		n, place := 0, rows[0].place
		var chunks []windowRow
		for n < len(rows) && rows[n].place == place {
			chunks = append(chunks, rows[n].windowRow)
			n++
		}
		windows[place-1], rows = windowOf(chunks).LogWindow, rows[n:]
		windows[place-1].keepLast(lines)
	}
	return windows, nil
}

// tailRow is a row of the window of one of several logs.
type tailRow struct {
	windowRow

	place int
}

func scanTail(row pgx.CollectableRow) (t tailRow, err error) {
	t.windowRow, err = scanWindow(row, &t.place)
	return t, err
}
