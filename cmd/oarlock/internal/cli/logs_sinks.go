package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

func (e *env) newLogSink(o *logsOptions, reader *queue.LogReader) logSink {
	switch format := e.settings.Text("output"); {
	case isJSON(format):
		s := &jsonSink{env: e, stream: o.stream, array: format == "json"}
		return newTailSink(o.tail, s, false)
	case o.raw:
		return newTailSink(o.tail, &rawSink{env: e, stream: o.stream}, true)
	}
	return newLineSink(e, o, reader)
}

// rawSink prints the bytes of chunks unchanged.
type rawSink struct {
	env    *env
	stream queue.Stream
}

func (s *rawSink) add(c *queue.Chunk) error {
	if c.Dropped > 0 {
		fmt.Fprintf(s.env.Stderr, "[%s are missing here]\n", runview.Count(int(c.Dropped), "byte"))
	}
	if c.Final && c.Reason == "lost" {
		fmt.Fprintf(s.env.Stderr, "[attempt %d was lost with its worker: the last output of the attempt may be missing]\n", c.Attempt)
	}
	if c.Stream == queue.StreamOarlock || s.stream != 0 && c.Stream != s.stream {
		return nil
	}
	return s.env.print(string(c.Data))
}

func (s *rawSink) live() error { return nil }
func (s *rawSink) idle() error { return nil }
func (s *rawSink) end() error  { return nil }

// jsonSink prints an object for each chunk: one a line, or all in one array that ends with the log.
type jsonSink struct {
	env    *env
	stream queue.Stream
	array  bool
	any    bool
}

func (s *jsonSink) add(c *queue.Chunk) error {
	if s.stream != 0 && c.Stream != s.stream && c.Stream != queue.StreamOarlock {
		return nil
	}
	if !s.array {
		line, err := runview.EncodeJSON(runview.NewChunkJSON(c))
		if err != nil {
			return err
		}
		return s.env.print(line + "\n")
	}
	text, err := json.MarshalIndent(runview.NewChunkJSON(c), "  ", "  ")
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	between := "[\n  "
	if s.any {
		between = ",\n  "
	}
	s.any = true
	return s.env.print(between + runview.InertJSON(string(text)))
}

func (s *jsonSink) live() error { return nil }
func (s *jsonSink) idle() error { return nil }

func (s *jsonSink) end() error {
	switch {
	case !s.array:
		return nil
	case !s.any:
		return s.env.print("[]\n")
	}
	return s.env.print("\n]\n")
}

// tailSink keeps the chunks that hold the last lines of the stored log, and passes them on once all stored chunks have
// come.
type tailSink struct {
	logSink

	lines int // wanted
	exact bool
	kept  []queue.Chunk
	ends  int // line ends in kept
}

// newTailSink returns a sink that passes on to next the last lines of the stored log, and then all that follows. If exact is set,
// the output begins with the first of these lines, otherwise with the chunk that holds it. A negative number of lines means all:
// then it returns next itself.
func newTailSink(lines int, next logSink, exact bool) logSink {
	if lines < 0 {
		return next
	}
	return &tailSink{logSink: next, lines: lines, exact: exact}
}

var newline = []byte("\n")

func (s *tailSink) add(c *queue.Chunk) error {
	if s.lines < 0 {
		return s.logSink.add(c)
	}
	s.kept = append(s.kept, *c)
	s.ends += bytes.Count(c.Data, newline)
	for len(s.kept) > 0 && s.ends-bytes.Count(s.kept[0].Data, newline) > s.lines {
		s.ends -= bytes.Count(s.kept[0].Data, newline)
		s.kept = s.kept[1:]
	}
	return nil
}

func (s *tailSink) live() error {
	kept := s.kept
	if s.lines == 0 {
		kept = nil
	}
	if s.exact {
		s.cut(kept)
	}
	s.lines, s.kept = -1, nil
	for i := range kept {
		if err := s.logSink.add(&kept[i]); err != nil {
			return err
		}
	}
	return nil
}

// cut removes all but the last s.lines lines from the kept chunks. Bytes behind the last line end count as a line. Chunks that have
// no line left stay, without data.
func (s *tailSink) cut(kept []queue.Chunk) {
	extra := s.ends - s.lines
	for _, c := range slices.Backward(kept) {
		if len(c.Data) == 0 {
			continue
		}
		if !bytes.HasSuffix(c.Data, newline) {
			extra++
		}
		break
	}
	for i := range kept {
		for ; extra > 0; extra-- {
			_, after, ends := bytes.Cut(kept[i].Data, newline)
			if !ends {
				kept[i].Data = nil
				break
			}
			kept[i].Data = after
		}
	}
}

// ring keeps the last size items that were added.
type ring[T any] struct {
	items []T
	size  int
	next  int
}

func newRing[T any](size int) *ring[T] { return &ring[T]{size: size} }

func (r *ring[T]) add(v T) {
	switch {
	case r.size == 0:
	case len(r.items) < r.size:
		r.items = append(r.items, v)
	default:
		r.items[r.next] = v
		r.next = (r.next + 1) % r.size
	}
}

// all yields the items, oldest first.
func (r *ring[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range r.items {
			if !yield(r.items[(r.next+i)%len(r.items)]) {
				return
			}
		}
	}
}

const (
	maxLogLine    = 64 << 10 // bytes of one line; a longer line is folded
	maxNameColumn = 24       // columns; a longer name shifts its own line to the right
)

// lineSink prints logs line by line. It keeps the unfinished line of each running task.
type lineSink struct {
	env     *env
	options *logsOptions
	reader  *queue.LogReader

	out      bytes.Buffer // output of the current chunk
	partial  map[lineKey]*partialLine
	attempts map[dagrun.TaskID]int // latest attempt of each task of which something was printed
	kept     *ring[string]         // the last lines, to be printed later; nil: lines are printed at once
	named    bool                  // each line begins with the name of its task
	column   int                   // width of the names of tasks known so far
	started  bool
}

type lineKey struct {
	task    dagrun.TaskID
	attempt int
	stream  queue.Stream
}

// partialLine is a line that has not ended yet.
type partialLine struct {
	text  []byte
	step  string    // the step that writes it
	at    time.Time // of its first byte
	shown bool      // a part of it has been printed
}

func newLineSink(e *env, o *logsOptions, reader *queue.LogReader) *lineSink {
	s := &lineSink{env: e, options: o, reader: reader, partial: map[lineKey]*partialLine{}, attempts: map[dagrun.TaskID]int{}}
	if o.tail >= 0 {
		s.kept = newRing[string](o.tail)
	}
	return s
}

func (s *lineSink) add(c *queue.Chunk) error {
	s.begin(c)
	if c.Dropped > 0 {
		s.foldAll(c)
		s.note(c, fmt.Sprintf("%s are missing here", runview.Count(int(c.Dropped), "byte")))
	}
	switch {
	case c.Stream == queue.StreamOarlock:
		if text := strings.TrimSpace(runview.Printable(string(c.Data))); text != "" {
			s.note(c, text)
		}
	case s.options.stream == 0 || s.options.stream == c.Stream:
		s.take(c)
	}
	if c.Final {
		s.foldAll(c)
		if c.Reason == "lost" {
			s.note(c, fmt.Sprintf("attempt %d was lost with its worker: the last output of the attempt may be missing", c.Attempt))
		}
	}
	return s.write()
}

// begin prepares s for the chunk c, before take. The first call decides the width of the column of names, and whether lines have
// names; a later call may decide that they have. If the task is at another attempt than before, begin writes a note.
func (s *lineSink) begin(c *queue.Chunk) {
	if !s.started {
		s.started = true
		s.column = s.firstColumn()
		s.named = s.options.query.Item == "" && s.options.follow && s.options.query.Step == "" && len(s.reader.Steps()) > 1 && !s.reader.Over()
	}
	s.named = s.named || s.reader.Tasks() > 1
	last, known := s.attempts[c.Task]
	if !known {
		s.column = max(s.column, min(term.Width(runview.InlineText(runview.TaskName(c.Step, c.Task.Item))), maxNameColumn))
	}
	s.attempts[c.Task] = c.Attempt
	if known && last != c.Attempt {
		s.note(c, fmt.Sprintf("attempt %d", c.Attempt))
	}
}

// firstColumn returns the width of the widest name among tasks that have a log already and steps that may get one, at most
// maxNameColumn.
func (s *lineSink) firstColumn() (column int) {
	if s.options.query.Step == "" {
		for _, step := range s.reader.Steps() {
			column = max(column, min(term.Width(step), maxNameColumn))
		}
	}
	for step, item := range s.reader.Known() {
		column = max(column, min(term.Width(runview.InlineText(runview.TaskName(step, item))), maxNameColumn))
	}
	return column
}

// take splits a chunk into lines and prints them. It keeps an unfinished line in s.partial until a later chunk ends it. It splits a
// line that is longer than maxLogLine.
func (s *lineSink) take(c *queue.Chunk) {
	key := lineKey{c.Task, c.Attempt, c.Stream}
	p := s.partial[key]
	for rest := c.Data; len(rest) > 0; {
		line, after, ends := bytes.Cut(rest, []byte("\n"))
		rest = after
		if p == nil {
			p = &partialLine{step: c.Step, at: c.At}
		}
		for room := maxLogLine - len(p.text); len(line) > room; room = maxLogLine {
			p.text = append(p.text, line[:room]...)
			line = line[room:]
			s.line(c, p, s.named)
			p = &partialLine{step: c.Step, at: c.At, shown: !s.named}
		}
		p.text = append(p.text, line...)
		if ends {
			s.line(c, p, true)
			p = nil
		}
	}
	if p == nil {
		delete(s.partial, key)
	} else {
		s.partial[key] = p
	}
}

// foldAll prints the unfinished lines of the attempt that c belongs to, because bytes are missing behind them or because the
// attempt is over.
func (s *lineSink) foldAll(c *queue.Chunk) {
	for _, stream := range []queue.Stream{queue.StreamStdout, queue.StreamStderr} {
		key := lineKey{c.Task, c.Attempt, stream}
		if p := s.partial[key]; p != nil {
			s.line(c, p, s.named || s.env.StdoutTTY)
			delete(s.partial, key)
		}
	}
}

// line prints the text in p, or keeps it for the tail. With --grep it leaves out a text that does not match. If ends is set, a line
// end follows the text.
func (s *lineSink) line(c *queue.Chunk, p *partialLine, ends bool) {
	if s.options.grep != nil && !s.options.grep.Match(bytes.TrimSuffix(p.text, []byte("\r"))) {
		return
	}
	text := s.render(c, p)
	if ends {
		text += "\n"
	}
	if s.kept != nil {
		s.kept.add(text)
		return
	}
	s.out.WriteString(text)
}

func (s *lineSink) render(c *queue.Chunk, p *partialLine) string {
	text := string(p.text)
	if s.env.StdoutTTY {
		text = term.StripControl(text, bool(s.env.stdoutPaint().Painter))
	}
	if p.shown {
		return text
	}
	if s.options.timestamps {
		text = s.env.stdoutPaint().Dim(p.at.UTC().Format("2006-01-02T15:04:05.000Z")) + " " + text
	}
	if s.named {
		text = s.prefix(s.env.stdoutPaint(), c) + text
	}
	return text
}

// palette has the colours of names: colours that can be told apart on dark and on light backgrounds.
var palette = []string{"36", "33", "35", "32", "34", "96", "95", "94"}

// prefix returns the name of the task of c as a column in the colour of its step. A step has the same colour in every run.
func (s *lineSink) prefix(paint painter, c *queue.Chunk) string {
	name := runview.InlineText(runview.TaskName(c.Step, c.Task.Item))
	gap := strings.Repeat(" ", max(0, s.column-term.Width(name)))
	h := fnv.New32a()
	_, _ = h.Write([]byte(runview.StepOf(c.Step)))
	return paint.Paint(palette[h.Sum32()%uint32(len(palette))], name) + gap + paint.Dim(" | ")
}

// note prints a remark about a task to standard error, between the lines of the log.
func (s *lineSink) note(c *queue.Chunk, text string) {
	paint := s.env.stderrPaint()
	name := runview.Printable(runview.TaskName(c.Step, c.Task.Item))
	if name == "" {
		name = runview.Printable(runview.TaskName(s.options.query.Step, s.options.query.Item))
	}
	if s.kept == nil {
		_ = s.write() // keeps the order of the output; add returns the error if writing fails
	}
	fmt.Fprintln(s.env.Stderr, paint.Dim(fmt.Sprintf("[%s: %s]", name, text)))
}

func (s *lineSink) write() error {
	if s.out.Len() == 0 {
		return nil
	}
	text := s.out.String()
	s.out.Reset()
	return s.env.print(text)
}

func (s *lineSink) live() error {
	if s.kept == nil {
		return nil
	}
	for line := range s.kept.all() {
		s.out.WriteString(line)
	}
	s.kept = nil
	return s.write()
}

// idle prints unfinished lines, for example a question. With names of tasks, --grep or --timestamps it does nothing, because an
// unfinished line could be mistaken for another task's, or cannot be matched yet.
func (s *lineSink) idle() error {
	if s.named || s.options.grep != nil || s.options.timestamps {
		return nil
	}
	for _, p := range s.partial {
		if len(p.text) > 0 {
			s.out.WriteString(s.render(&queue.Chunk{}, p))
			p.text, p.shown = nil, true
		}
	}
	return s.write()
}

func (s *lineSink) end() error {
	keys := slices.SortedFunc(maps.Keys(s.partial), func(a, b lineKey) int {
		return cmp.Or(s.partial[a].at.Compare(s.partial[b].at), cmp.Compare(a.task.Step, b.task.Step), cmp.Compare(a.task.Item, b.task.Item))
	})
	for _, key := range keys {
		p := s.partial[key]
		if !p.shown || len(p.text) > 0 || s.env.StdoutTTY {
			s.line(&queue.Chunk{Task: key.task, Step: p.step}, p, s.named || s.env.StdoutTTY)
		}
	}
	clear(s.partial)
	return s.write()
}
