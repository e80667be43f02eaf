package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

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
		fmt.Fprintf(s.env.Stderr, "[attempt %d was lost with its worker: what it wrote last may be missing]\n", c.Attempt)
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
		return s.env.print(runview.CompactJSON(runview.NewChunkJSON(c)) + "\n")
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

// newTailSink returns next itself if all lines are wanted. If exact, the first chunk that is passed on begins with the
// first wanted line.
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

// cut drops all but the last lines of the kept chunks. Bytes behind the last line end count as a line.
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

// ring keeps the last items that were added.
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
