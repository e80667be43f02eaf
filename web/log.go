package web

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/web/loghtml"
)

const (
	panelLines   = 200 // on a page of its own
	pageLines    = 500 // shown above the line that the address names
	contextLines = 12  // shown above a line that an address names
	hitLines     = 200 // one search returns at most this many lines
	searchTime   = 2 * time.Second
	searchBytes  = 64 << 20
	saidLines    = 4 // of the box that names what failed
)

// logQuery is the part of a page's address about a log.
type logQuery struct {
	From   int64  // first line to show; 0: the end of the log
	Line   int64  // first line to mark, up to To; 0: none
	To     int64  //
	Find   string // regular expression to search for; "": show all lines
	Stream string // stdout or stderr; "": both
	Whole  bool   // the log has a page of its own
}

func parseLogQuery(form url.Values) (q logQuery, err error) {
	q.Find = form.Get("q")
	if s := form.Get("stream"); s == "stdout" || s == "stderr" {
		q.Stream = s
	}
	if text := form.Get("from"); text != "" {
		if q.From, err = strconv.ParseInt(text, 10, 64); err != nil || q.From < 1 {
			return q, badQuery("from", text)
		}
	}
	if text := form.Get("line"); text != "" {
		first, last, isRange := strings.Cut(text, "-")
		q.Line, err = strconv.ParseInt(first, 10, 64)
		q.To = q.Line
		if isRange && err == nil {
			q.To, err = strconv.ParseInt(last, 10, 64)
		}
		if err != nil || q.Line < 1 || q.To < q.Line {
			return q, badQuery("line", text)
		}
		if q.From == 0 {
			q.From = max(1, q.Line-contextLines)
		}
	}
	return q, nil
}

func (q *logQuery) stream() *queue.Stream {
	stream := queue.StreamStdout
	switch q.Stream {
	case "":
		return nil
	case "stderr":
		stream = queue.StreamStderr
	}
	return &stream
}

// logView is the part of a log that a page shows.
type logView struct {
	Attempt int
	Lines   []logLine
	Total   int64
	First   int64 // number of the first line shown; 0: there is none
	Last    int64
	Older   int64 // first line of the window before this one; 0: there is none
	Newer   int64 // first line of the window after this one; 0: there is none
	AtEnd   bool  // this window has the last line of the log
	Final   bool  // no line will be added to the log

	Found  bool   // Lines are the hits of a search
	Hits   int    //
	GoOn   int64  // line at which to continue a search that ran out of time; 0: the search is complete
	Faulty string // error in the regular expression
}

// logLine is a line of a log in a page.
type logLine struct {
	Number  int64
	At      time.Time
	Class   string
	HTML    template.HTML
	Dropped int64
	Cut     bool // the end of a long line is left out
}

// readLog reads the lines of a log that the address asks for: the hits if q.Log.Find is a regular expression, else one window. If
// Find is no correct regular expression, the result has the error for the user in Faulty, beside the window.
func (s *server) readLog(ctx context.Context, run queue.RunID, q taskQuery) (*logView, error) {
	find, faulty := compile(q.Log.Find)
	if find != nil {
		return s.searchLog(ctx, run, q, find)
	}
	lines := panelLines
	if q.Log.Whole {
		lines = pageLines
	}
	w, err := s.store.LogWindow(ctx, queue.LogWindowQuery{
		Run: run, Step: q.Step, Item: q.Item, Attempt: q.Attempt, From: q.Log.From, Lines: lines, Stream: q.Log.stream(),
	})
	if err != nil {
		return nil, err
	}
	v := &logView{Attempt: w.Attempt, Total: w.Total, Final: w.Final, Faulty: faulty}
	for i := range w.Lines {
		v.Lines = append(v.Lines, showLine(&w.Lines[i], q.Log, nil))
	}
	v.First, v.Last, v.AtEnd = w.Begin, w.End-1, w.End > w.Total
	if v.First > 1 {
		v.Older = max(1, v.First-int64(lines))
	}
	if !v.AtEnd {
		v.Newer = w.End
	}
	return v, nil
}

// compile compiles the text of a search as a regular expression. It ignores case unless the text has a capital letter. find is nil
// for "" and for a wrong expression; faulty is then the error for the user, "" if there is none.
func compile(text string) (find *regexp.Regexp, faulty string) {
	if text == "" {
		return nil, ""
	}
	if strings.ToLower(text) == text {
		text = "(?i)" + text
	}
	find, err := regexp.Compile(text)
	if err != nil {
		return nil, "This is no regular expression: " + runview.InlineText(strings.TrimPrefix(err.Error(), "error parsing regexp: ")) + "."
	}
	return find, ""
}

func (s *server) searchLog(ctx context.Context, run queue.RunID, q taskQuery, find *regexp.Regexp) (*logView, error) {
	within, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	hits, err := s.store.SearchLog(within, queue.LogSearch{
		Run: run, Step: q.Step, Item: q.Item, Attempt: q.Attempt, Pattern: find, Stream: q.Log.stream(), From: max(1, q.Log.From), Hits: hitLines, MaxBytes: searchBytes,
	})
	if err != nil {
		return nil, err
	}
	v := &logView{Attempt: hits.Attempt, Found: true, Hits: len(hits.Lines), GoOn: hits.Next, Final: hits.Final}
	for i := range hits.Lines {
		v.Lines = append(v.Lines, showLine(&hits.Lines[i], q.Log, find))
	}
	return v, nil
}

func showLine(l *queue.LogLine, q logQuery, find *regexp.Regexp) logLine {
	shown := logLine{Number: l.Number, At: l.At, HTML: loghtml.Line(l.Text, find), Dropped: l.Dropped, Cut: l.Cut}
	switch l.Stream {
	case queue.StreamStderr:
		shown.Class = "err"
	case queue.StreamOarlock:
		shown.Class = "ours"
	case queue.StreamStdout:
	}
	if q.Line > 0 && l.Number >= q.Line && l.Number <= q.To {
		shown.Class = strings.TrimSpace(shown.Class + " here")
	}
	return shown
}

// lastWords returns the last lines that are not blank, at most saidLines: of standard error, or of standard output if standard
// error has none in v. It returns nil if v is a search, or does not reach the end of the log.
func (v *logView) lastWords() []logLine {
	if v.Found || !v.AtEnd {
		return nil
	}
	for _, class := range []string{"err", ""} {
		var last []logLine
		for i := len(v.Lines) - 1; i >= 0 && len(last) < saidLines; i-- {
			if l := v.Lines[i]; strings.HasPrefix(l.Class+" ", class+" ") && strings.TrimSpace(string(l.HTML)) != "" {
				last = append([]logLine{l}, last...)
			}
		}
		if len(last) > 0 {
			return last
		}
	}
	return nil
}

// logPage shows the log of one task on a page of its own.
func (s *server) logPage(w http.ResponseWriter, r *http.Request) error {
	p, err := s.readStep(r, logKind)
	if err != nil {
		return err
	}
	return s.render(w, r, "log.html", page{
		Title: "Log of " + p.Panel.Name + " – " + p.title(), Nav: "runs", Data: p,
		Crumbs: p.crumbs(crumb{p.Panel.Name, p.TaskLink(p.Panel.Task)}, crumb{"log", ""}), Live: liveOf(s.here(r), p.Run.Over()),
	})
}

// logText sends the log of one task as a text file, of both streams or of the one in the address. If the log cannot be read to its
// end, the answer is broken off.
func (s *server) logText(w http.ResponseWriter, r *http.Request) error {
	asked, err := parseStepQuery(r, textKind)
	if err != nil {
		return err
	}
	id, q := asked.ID, asked.Task
	reader := s.store.OpenLogs(queue.LogQuery{Run: id, Step: q.Step, Item: q.Item, Attempt: q.Attempt})
	begun := false
	for chunk, err := range reader.Stored(r.Context()) {
		if err != nil && !begun {
			return err
		}
		if err != nil {
			panic(http.ErrAbortHandler) // abort the response: half a log must not pass for a whole one
		}
		if !begun {
			begin(w, id, q)
			begun = true
		}
		if err := sendChunk(w, &chunk, q.Log.stream()); err != nil {
			return nil // the client has disconnected
		}
	}
	if !begun {
		begin(w, id, q)
	}
	return nil
}

var notInFileName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

func begin(w http.ResponseWriter, id queue.RunID, q taskQuery) {
	name := notInFileName.ReplaceAllString(fmt.Sprintf("run-%d-%s", id, q.Name()), "_") + ".log"
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
}

// sendChunk writes a chunk, unless stream is not nil and the chunk is of another stream. It extends the write deadline each time,
// so a log may take any time as long as chunks get through. It writes a note for bytes that the log lost before the chunk.
func sendChunk(w http.ResponseWriter, c *queue.Chunk, stream *queue.Stream) error {
	if stream != nil && c.Stream != *stream {
		return nil
	}
	err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("set the deadline of a log: %w", err)
	}
	if c.Dropped > 0 {
		_, _ = fmt.Fprintf(w, "\n[oarlock: %d bytes were lost here]\n", c.Dropped)
	}
	_, err = w.Write(c.Data)
	return err
}
